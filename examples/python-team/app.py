"""An app in Python: a planner and a searcher on the `openai` package. It takes signed attempts from mgrpo's workers and answers them.

    pip install openai
    npx tsx examples/python-team/export-pages.ts pages.json
    MGRPO_RUNNER_SECRET=<at least 16 characters> python examples/python-team/app.py pages.json

docs/your-own-agents.md describes the protocol.
"""

import ast
import hashlib
import hmac
import inspect
import json
import operator
import os
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from openai import OpenAI

PORT = 8787
WINDOW_SECONDS = 300
SECRET = os.environ.get("MGRPO_RUNNER_SECRET", "").encode()
if len(SECRET) < 16:
    sys.exit("MGRPO_RUNNER_SECRET: set it to at least 16 characters, here and for the workers")


# ---------------------------------------------------------------- the app

def string_tool(name, description, *parameters):
    properties = {parameter: {"type": "string"} for parameter in parameters}
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


PLANNER_TOOLS = [
    string_tool("delegate", "Hands a subtask to a sub-agent and returns its report.", "agent", "task"),
    string_tool("calculate", "Evaluates an arithmetic expression of numbers, + - * / and parentheses.", "expression"),
]
SEARCHER_TOOLS = [
    string_tool("search", "Returns the titles of the three best pages.", "query"),
    string_tool("visit", "Opens the page of that title.", "title"),
]


def converse(agent, prompt, tools, functions, turns):
    """Runs an agent for at most `turns` turns, until it calls no tool. Returns its answer, or None."""
    client = OpenAI(base_url=agent["baseURL"], api_key=agent["apiKey"])
    messages = [{"role": "user", "content": prompt}]
    for _ in range(turns):
        message = client.chat.completions.create(model=agent["model"], messages=messages, tools=tools).choices[0].message
        if not message.tool_calls:
            found = re.search(r"<answer>(.*?)</answer>", message.content or "", re.DOTALL)
            return found.group(1).strip() if found else None
        messages.append(message.model_dump(exclude_none=True))
        with ThreadPoolExecutor() as pool:
            results = list(pool.map(lambda call: run(functions, call.function), message.tool_calls))
        for call, result in zip(message.tool_calls, results):
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    return None


def run(functions, call):
    function = functions[call.name]
    try:
        arguments = inspect.signature(function).bind(**json.loads(call.arguments)).arguments
    except (TypeError, ValueError):
        return "wrong arguments"
    if not all(isinstance(value, str) for value in arguments.values()):
        return "wrong arguments"
    return function(**arguments)


def answer(question, agents, worlds):
    pages = worlds[str(question["facts"]["world"])]
    sources = {"search": lambda query: search(pages, query), "visit": lambda title: pages.get(title.strip(), "no such page")}

    def delegate(agent, task):
        return converse(agents["searcher"], task, SEARCHER_TOOLS, sources, 4) or "no report"

    return converse(agents["main"], question["prompt"], PLANNER_TOOLS, {"delegate": delegate, "calculate": calculate}, 5)


OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def calculate(expression):
    if not re.fullmatch(r"[0-9\s.()+*/-]+", expression):
        return "not an arithmetic expression"
    try:
        return f"{value(ast.parse(expression.strip(), mode='eval').body):.12g}"
    except (SyntaxError, KeyError, TypeError, ValueError, ArithmeticError, RecursionError):
        return "not an arithmetic expression"


def value(node):
    """Evaluates numbers, + - * / and parentheses. Raises KeyError, TypeError or ValueError for other nodes."""
    if isinstance(node, ast.Constant):
        return float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -value(node.operand)
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](value(node.left), value(node.right))
    raise TypeError(node)


def search(pages, query):
    terms = [term.strip().lower() for term in query.split(",")]
    scores = {title: sum(term in f"{title} {text}".lower() for term in terms) for title, text in pages.items()}
    best = sorted((title for title, score in scores.items() if score), key=lambda title: (-scores[title], title))
    return "\n".join(best[:3]) or "nothing found"


# ---------------------------------------------------------------- the protocol

def signature(*lines):
    return hmac.new(SECRET, "\n".join(lines).encode(), hashlib.sha256).hexdigest()


def sha256(body):
    return hashlib.sha256(body).hexdigest()


class Attempts(BaseHTTPRequestHandler):
    """Answers attempts, each in a thread of its own."""

    seen = {}
    lock = threading.Lock()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        sent_at, nonce = self.headers.get("x-mgrpo-time", ""), self.headers.get("x-mgrpo-nonce", "")
        expected = signature("POST", self.path, sha256(body), nonce, sent_at)
        if not hmac.compare_digest(expected.encode(), self.headers.get("x-mgrpo-signature", "").encode()):
            return self.reply(401, b"the call is not signed with MGRPO_RUNNER_SECRET")
        now = time.time()
        if abs(now - int(sent_at) / 1000) > WINDOW_SECONDS:
            return self.reply(401, b"the call's time is more than five minutes off")
        if self.is_repeated(nonce, now):
            return self.reply(409, b"this call was already received")
        call = json.loads(body)
        try:
            found = answer(call["question"], call["agents"], self.server.worlds)
        except Exception as error:  # The worker logs it and repeats the attempt, unless an agent had reached a limit.
            return self.reply(500, str(error).encode())
        result = {"answer": found} if found else {"failed": "it ended without an answer"}
        self.reply(200, json.dumps(result).encode(), nonce)

    def is_repeated(self, nonce, now):
        """Whether a call with this nonce was received before. Remembers it."""
        with Attempts.lock:
            Attempts.seen = {one: until for one, until in Attempts.seen.items() if until > now}
            is_repeated = nonce in Attempts.seen
            Attempts.seen.setdefault(nonce, now + 2 * WINDOW_SECONDS)
        return is_repeated

    def reply(self, status, body, nonce=None):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        if nonce is not None:
            self.send_header("x-mgrpo-signature", signature("report", sha256(body), nonce))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", PORT), Attempts)
    with open(sys.argv[1], encoding="utf-8") as file:
        server.worlds = json.load(file)
    print(f"accepts attempts at http://127.0.0.1:{PORT}/", flush=True)
    server.serve_forever()
