"""This module is the command ``predictor policy``: show, write and check policies of the queue."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pipelines.given_options import refuse
from pipelines.output_paths import file_faults
from predictor.scheduling.named_policy import named_policy
from predictor.scheduling.policy_document import policy_document
from predictor.scheduling.policy_file import policy_toml, settings_of

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

EXAMPLES = """
Examples:

  predictor policy

  predictor policy ours:reserve.heads=5 --out policy.toml

  predictor policy policy.toml --changed

  predictor policy conservative --json

  predictor serve --cluster site.toml --policy policy.toml

  predictor simulate jobs.parquet --cluster site.toml --policy easy,policy.toml

Exit codes: 0 fine; 2 the policy has faults, all of which are named.
"""


@app.command(epilog=EXAMPLES)
def policy(
    name: Annotated[
        str, typer.Argument(help="A TOML file, or the name of a policy, with settings changed after colons.")
    ] = "ours",
    *,
    out: Annotated[Path | None, typer.Option(help="Write it there, as TOML.")] = None,
    changed: Annotated[bool, typer.Option(help="Only settings that differ from the default.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show a policy as TOML with what each setting means; a file with faults is refused."""
    refuse(file_faults("--out", out))
    chosen = named_policy(name)
    settings = [each for each in settings_of(chosen) if not changed or each.value != each.default]
    if out is not None:
        out.write_text(policy_toml(chosen), encoding="utf-8")
    if as_json:
        document = {"policy": policy_document(chosen), "settings": [asdict(each) for each in settings]}
        typer.echo(json.dumps(document, indent=2))
    elif changed:
        for each in settings:
            typer.echo(f"{each.path} = {json.dumps(each.value)} (default {json.dumps(each.default)})")
    elif out is None:
        typer.echo(policy_toml(chosen), nl=False)
