"""This module numbers the columns of the job store: one row per quantity, one column per job.

Two matrices (float64 and int64) hold everything that scheduling passes read, so that a compiled pass
takes two arguments instead of forty. Times are UTC seconds, spans are seconds.
"""

# float64 rows
SUBMIT = 0  # submission
LIMIT = 1  # enforced limit of the duration, inf = none
ESTIMATE = 2  # the caller's own number, nan = none
SIZE = 3  # what the order looks at: a part of the duration, times width, by class weight
PLAN = 4  # duration that backfilling counts with
START = 5  # start of the current attempt, nan while waiting
PLAN_END = 6  # expected end of the current attempt
PROMISE = 7  # promised start, nan = none
LATEST = 8  # start promised with confidence, nan = none
DEADLINE = 9  # nan = none
SAVED = 10  # seconds of work that survive an eviction
CHECKPOINT_EVERY = 11  # seconds between checkpoints, 0 = none
RESTART_COST = 12  # seconds
NOT_BEFORE = 13  # back-off after an eviction
KEY = 14  # order key at the last pass, smaller first
NUMBER_0 = 15  # numbers of the reason, see cycle.py
NUMBER_1 = 16
NUMBER_2 = 17
NUMBER_3 = 18
WEIGHT = 19  # weight of the class
VRAM = 20  # MiB on each device
SAVED_AT = 21  # instant of the last checkpoint of the current attempt
SERVED = 22  # seconds of running in earlier attempts, saved or not
BASE = 23  # work done before the current attempt
BACKLOG = 24  # at submission: seconds that the cluster needs for all before it, inf = no guard then
TOLD_WEIGHT = 25  # siblings that have ended since its submission, by nearness
TOLD_SCORE = 26  # their normal scores, times nearness, summed
TOLD_SQUARE = 27  # their squares, times nearness, summed
TOLD = [TOLD_WEIGHT, TOLD_SCORE, TOLD_SQUARE]
LOOK_AT = 28  # when the age of a running job is looked at next, for what it tells its siblings
FLOATS = 29

# int64 rows
STATE = 0
WIDTH = 1  # units held at once
NODES = 2  # over how many nodes evenly, 0 = as few as possible
POOLS = 3  # bit set of the pools that it may use
POOL = 4  # where it runs, -1
CLASS = 5  # index of its class
TEAM = 6  # index of its team
SEQUENCE = 7  # order of submission
REASON = 8  # ReasonCode of the last pass
TIER = 9  # classes of a lower tier come first, always
CORRECTIONS = 10  # how often the plan of the current attempt was exceeded
EVICTIONS = 11  # how often it was evicted
PREEMPTIBLE = 12  # 1 = may be evicted
CHECKPOINT = 13  # 0 none, 1 application, 2 system
PLACE = 14  # position in the list of running jobs
NODE_LIST = 15  # head of its nodes in the placement list, -1
ISLAND = 16  # 1 = must lie inside one island
USER = 17  # index of its user
ELDER = 18  # slot of the sibling submitted before it that still waits or runs, -1
YOUNGER = 19  # of the one submitted after it, -1
BIRTH = 20  # its place among its siblings
CONFIRMED = 21  # 1 = the scheduler has told that the current attempt runs
INTS = 22

FREE_SLOT, WAITING, RUNNING, LEAVING = 0, 1, 2, 3
