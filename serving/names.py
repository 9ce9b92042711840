"""This module hides the names of users and accounts before anything is kept, where the site wants that."""

from collections.abc import Mapping
from dataclasses import replace

from predictor.data.pseudonyms import Pseudonyms, read_names_key
from predictor.scheduling.policy import Policy
from predictor.scheduling.policy_document import policy_document, policy_from_document
from serving.schemas import RequestFields
from serving.settings import Settings


class Names:
    """Puts tokens in place of names; without a key it leaves everything as it is."""

    def __init__(self, pseudonyms: Pseudonyms | None = None) -> None:
        self._pseudonyms = pseudonyms

    def hide(self, fields: RequestFields) -> None:
        """Replace user and account of a job, also where they occur in its name and command."""
        if self._pseudonyms is None:
            return
        user, account = fields.user, fields.account
        if fields.job_name is not None:
            fields.job_name = self._pseudonyms.within(fields.job_name, user, account)
        if fields.command is not None:
            fields.command = self._pseudonyms.within(fields.command, user, account)
        fields.user = None if user is None else self._pseudonyms.token(user)
        fields.account = None if account is None else self._pseudonyms.token(account)

    def hide_in_policy(self, policy: Policy) -> Policy:
        """Return a policy whose quotas and weights name teams by their tokens."""
        if self._pseudonyms is None:
            return policy
        token = self._pseudonyms.token
        weights = tuple(replace(each, team=token(each.team)) for each in policy.fair_share.weights)
        return replace(
            policy,
            quotas=tuple(replace(each, team=token(each.team)) for each in policy.quotas),
            fair_share=replace(policy.fair_share, weights=weights),
        )

    def hide_in_state(self, state: Mapping[str, object]) -> dict[str, object]:
        """Return the state of a snapshot, which may come from a service that keeps names, with tokens."""
        hidden = dict(state)
        if self._pseudonyms is None:
            return hidden
        token = self._pseudonyms.token
        teams, jobs = state.get("teams"), state.get("jobs")
        if isinstance(teams, list):
            hidden["teams"] = [token(str(team)) for team in teams]
        if isinstance(jobs, list):
            hidden["jobs"] = [
                {**job, "user": token(str(job.get("user", ""))), "team": token(str(job.get("team", "")))}
                if isinstance(job, dict)
                else job
                for job in jobs
            ]
        policy = state.get("policy")
        if isinstance(policy, dict):
            hidden["policy"] = policy_document(self.hide_in_policy(policy_from_document(policy)))
        return hidden


def names_of(settings: Settings) -> Names:
    """Return what hides names, as the settings want it.

    Raises:
        ArgumentError: the key cannot be used.
    """
    return Names(None if settings.names_key is None else read_names_key(settings.names_key))
