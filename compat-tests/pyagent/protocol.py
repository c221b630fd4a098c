"""The agent protocol on standard input and output: which request goes to which thread, and how it is answered."""

import argparse
import json
import os
import queue
import sys
import threading
import traceback


class Unsupported(Exception):
    """Raised by a step that the client has no call for."""


class Answers:
    """Standard output: one JSON object a line, from any thread."""

    def __init__(self, out):
        self._out = out
        self._lock = threading.Lock()

    def line(self, message):
        with self._lock:
            self._out.write(json.dumps(message) + "\n")
            self._out.flush()

    def answer(self, request, run):
        """Runs the step and answers the request with what came of it."""
        try:
            self.line({"id": request["id"], "ok": True, **(run(request) or {})})
        except Unsupported as e:
            self.line({"id": request["id"], "unsupported": str(e)})
        except Exception as e:
            print("step failed: %s" % request, file=sys.stderr)
            traceback.print_exc()
            self.line({"id": request["id"], "ok": False, "error": "%s: %s" % (type(e).__name__, e)})


def arguments():
    """The --bootstrap and --dir that every agent is started with."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    parser.add_argument("--dir", required=True, metavar="WORKDIR")
    return parser.parse_args()


def serve(hello, steps, open_member):
    """Answers requests until the end of standard input, and then ends the process.

    steps maps the names of the steps without a group member to functions of the request; they run one after another on
    one thread. open_member makes the Member that a consumer-open request asks for.
    """
    # Answers get a descriptor of their own: what a library prints goes to the log.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", newline="\n")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    answers = Answers(out)
    answers.line({"hello": hello})

    waiting = queue.Queue()
    threading.Thread(target=_run_steps, args=(waiting, answers, steps), daemon=True).start()
    members = {}
    for line in sys.stdin:
        if not line.strip():
            continue
        request = json.loads(line)
        name = request.get("consumer")
        if name is None:
            waiting.put(request)
        elif request["step"] == "consumer-open" and name not in members:
            members[name] = open_member(request, answers)
        elif request["step"] == "consumer-open":
            answers.answer(request, _refuse("consumer %s is open already" % name))
        elif name not in members:
            answers.answer(request, _refuse("no consumer %s is open" % name))
        else:
            members[name].submit(request)
            if request["step"] == "consumer-close":
                del members[name]
    for member in members.values():
        member.stop()
    for member in members.values():
        member.join(5)
    sys.stderr.flush()
    # Threads of a client that could not be closed in time must not keep the process alive.
    os._exit(0)


def _run_steps(waiting, answers, steps):
    while True:
        request = waiting.get()
        answers.answer(request, steps.get(request["step"], _unknown))


def _unknown(request):
    raise Unsupported("this agent has no step %s" % request["step"])


def _refuse(why):
    def refuse(_):
        raise RuntimeError(why)

    return refuse
