"""foretell find on 1,200 pages: the examples that the AWS command line installs.

As in find_notes.py: twenty questions in the words of somebody who does not know the name of the
command, written with what counts as right before anything was searched. The pages are those of the
services named below; all services together are 5,800 pages, and embedding them takes half an hour.

benchmarks/find_pages.py EXAMPLES     default: awscli/examples of an installed awscli
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from _common import CACHE, package, write_result
from find_notes import K, built, quality

from foretell.app.notes.sentence_vectors import SentenceVectors

SERVICES = (
    "cloudformation", "cloudtrail", "cloudwatch", "configure", "dynamodb", "ec2", "efs", "iam",
    "lambda", "logs", "route53", "s3", "s3api", "secretsmanager", "sns", "sqs",
)  # fmt: skip
QUESTIONS = [  # question, file, what must stand in title or text
    ("stop paying for a server that I only need during the day",
     "ec2/stop-instances", ""),
    ("make a copy of a disk before I change it",
     "ec2/create-snapshots?\\.rst|ec2/create-image", ""),
    ("open a port for my office network only", "ec2/authorize-security-group-ingress", ""),
    ("which machines are running right now?",
     "ec2/describe-instances|ec2/describe-instance-st", ""),
    ("make my bucket private again",
     "s3api/put-public-access-block|s3api/put-(bucket|object)-acl|s3api/delete-bucket-policy", ""),
    ("upload a whole folder, but only what has changed", "s3/sync", ""),
    ("get back a file that I overwrote", "^s3", "version"),
    ("give a colleague a link to a file that expires", "s3/presign", ""),
    ("change my own password", "iam/change-password", ""),
    ("somebody left: take away their keys",
     "iam/(delete|update|list)-access-key|iam/delete-user\\.rst", ""),
    ("ask for a code from a phone when signing in", "iam/", "mfa"),
    ("let another account use what is in mine", "iam/.*role", "trust|assume"),
    ("restore the database as it was yesterday at noon",
     "dynamodb/restore-.*-to-point-in-time", ""),
    ("run code without having a server", "^lambda/", ""),
    ("write many rows of a table at once", "dynamodb/batch-write-item", ""),
    ("send me a mail when a machine is too busy", "cloudwatch/put-metric-alarm", ""),
    ("point my domain at another address", "route53/change-resource-record-sets", ""),
    ("see what would change before I update everything", "cloudformation/.*change-set", ""),
    ("who deleted it? look at what people did in the account", "cloudtrail/lookup-events", ""),
    ("keep a database password out of the code",
     "secretsmanager/(create-secret|get-secret-value|put-secret)", ""),
]  # fmt: skip


def examples() -> Path:
    """The folder that is given, or that of the installed package."""
    if len(sys.argv) > 1:
        return Path(sys.argv[1])
    return package("awscli") / "examples"


def chosen(source: Path) -> Path:
    """A copy of the pages of the services, with the dates that they have."""
    folder = CACHE / "find_pages_notes"
    shutil.rmtree(folder, ignore_errors=True)
    for service in SERVICES:
        shutil.copytree(source / service, folder / service, dirs_exist_ok=True)
    return folder


def asked(index: Path) -> float:
    """CPU-seconds of ``foretell find ask``, the whole command, after one to warm the caches."""
    command = [
        Path(sys.executable).with_name("foretell"),
        "find",
        "ask",
        str(index),
        QUESTIONS[0][0],
    ]
    spent = []
    for _ in range(3):
        before = os.times()
        subprocess.run(command, check=True, capture_output=True)
        after = os.times()
        spent.append(
            after.children_user - before.children_user
            + after.children_system - before.children_system
        )  # fmt: skip
    return min(spent)


def main() -> None:
    notes = chosen(examples())
    index = CACHE / "find_pages"
    passages, X, spent, embedded = built(index, notes)
    print(f"{embedded} passages embedded in {spent:.0f} CPU-s")
    pages = len({p.file for p in passages})
    Q = SentenceVectors().encode([question for question, _, _ in QUESTIONS])
    what = f"{pages} pages of awscli"
    table, each = quality(passages, X, Q, QUESTIONS, what)
    began = time.process_time()
    built(index, notes)
    again = time.process_time() - began
    costs: dict[str, Any] = {
        "columns": [
            "pages",
            "passages",
            "passages embedded a CPU-s",
            "build again, CPU-s",
            "ask, CPU-s",
        ],
        "rows": [
            [pages, len(passages), embedded / spent if embedded else None, again, asked(index)]
        ],
        "note": "Embedded: those of the last run, if the build was stopped and gone on with. Build "
        "again finds that nothing has changed. Ask is the whole command.",
    }
    tables = {"find-pages": table, "find-pages-questions": each, "find-pages-costs": costs}
    write_result("find_pages", {"k": K, "passages": len(passages), "pages": pages}, tables)
    for one in tables.values():
        print(*one["rows"], one["note"], sep="\n")


if __name__ == "__main__":
    main()
