"""Ask foretell with any client of language models: it serves `/v1/chat/completions`.

The request is plain JSON. With the package openai: OpenAI(base_url=f"{url}/v1", api_key="none")
and then client.chat.completions.create(model="foretell", messages=messages).
"""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

if not all(importlib.util.find_spec(name) for name in ("fastapi", "uvicorn", "websockets")):
    print('a server needs: pip install "foretell[serve]"')
    sys.exit()

Path("notes").mkdir()
Path("notes/pump.md").write_text("# Pump P-12\n\n## Oil\nThe oil is changed every 500 hours.\n")
command = [sys.executable, "-c", "from foretell.app.cli import main; main()"]
with subprocess.Popen(
    [*command, "talk", "--notes", "notes", "--serve", "--port", "0"],
    stderr=subprocess.PIPE,
    text=True,
) as server:
    url = ""
    while not url:
        line = server.stderr.readline() or sys.exit("the server did not start")
        found = re.search(r"Open (http://\S+)/", line)
        url = found[1] if found else ""

    messages = [{"role": "user", "content": "How often is the oil changed?"}]
    body = json.dumps({"model": "foretell", "messages": messages, "stream": False}).encode()
    request = Request(f"{url}/v1/chat/completions", body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as reply:
        answer = json.load(reply)
    server.terminate()
    server.stderr.close()

print(answer["choices"][0]["message"]["content"])
print(answer["foretell"]["decision"])
