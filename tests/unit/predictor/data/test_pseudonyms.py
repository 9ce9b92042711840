"""This module checks tokens of names: keyed, stable, the same for the same name, and nothing else changed."""

import hashlib
import hmac
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.data.pseudonyms import Pseudonyms, hide_names, read_names_key
from predictor.data.synthetic import WorkloadSpec, generate
from predictor.errors import ArgumentError

KEY = b"k" * 32
NAMES = st.text(min_size=1, max_size=30)


def test_a_token_is_half_of_hmac_sha_256() -> None:
    want = hmac.new(KEY, b"ada", hashlib.sha256).hexdigest()[:32]
    assert Pseudonyms(key=KEY).token("ada") == f"~{want}"


def test_another_key_gives_other_tokens_and_the_key_is_not_shown() -> None:
    one, other = Pseudonyms(key=KEY), Pseudonyms(key=b"x" * 32)
    assert one.token("ada") != other.token("ada")
    assert "kkk" not in repr(one)


def test_the_parts_of_a_path_keep_their_places() -> None:
    names = Pseudonyms(key=KEY)
    assert names.token("physics/lab3") == f"{names.token('physics')}/{names.token('lab3')}"
    assert names.token("") == ""


@given(NAMES)
def test_hiding_twice_is_hiding_once(name: str) -> None:
    names = Pseudonyms(key=KEY)
    assert names.token(names.token(name)) == names.token(name)


def test_names_are_replaced_in_texts_where_they_are_whole_words() -> None:
    names = Pseudonyms(key=KEY)
    text = "ada_run /home/ada/adapter.py --wandb ada@site.org --canada"
    hidden = names.within(text, "ada", None)
    token = names.token("ada")
    assert hidden == f"{token}_run /home/{token}/adapter.py --wandb {token}@site.org --canada"
    assert names.within(hidden, "ada") == hidden


def test_a_table_keeps_all_but_the_names() -> None:
    frame = generate(WorkloadSpec(jobs=300, days=3.0, users=5, random_state=2)).frame
    names = Pseudonyms(key=KEY)
    frame["submit_line"] = "sbatch --comment=" + frame["user"].astype("string")
    hidden = hide_names(frame, names)
    assert list(hidden["user"]) == [names.token(name) for name in frame["user"]]
    assert hidden["user"].nunique() == frame["user"].nunique() > 1
    assert not hidden["submit_line"].eq(frame["submit_line"]).any()
    same = [name for name in frame if name not in ("user", "account", "job_name", "submit_line", "work_dir")]
    assert hidden[same].equals(frame[same])
    assert (hidden.dtypes == frame.dtypes).all()


def test_a_key_that_could_be_guessed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "names.key"
    path.write_text("secret\n")
    with pytest.raises(ArgumentError, match="6 bytes"):
        read_names_key(path)
    with pytest.raises(ArgumentError, match="cannot be read"):
        read_names_key(tmp_path / "none")
    path.write_text("0" * 64 + "\n")
    assert read_names_key(path) == Pseudonyms(key=b"0" * 64)
