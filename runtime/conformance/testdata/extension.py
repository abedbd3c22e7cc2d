"""A runtime extension in Python, with nothing but the standard library, written from the OpenAPI document.

Usage: extension.py OPENAPI CERTIFICATE KEY
It serves on a free port of loopback, prints the port, and ends with its standard input.
"""
import http.server
import json
import os
import ssl
import sys
import threading

MAX_BODY = 20 << 20
GROUP = "hooks.runtime.cluster.x-k8s.io/v1alpha1"


def handle_create(request):
    if "approved" not in request["cluster"]["metadata"].get("annotations", {}):
        return {"status": "Success", "message": "waits for approval", "retryAfterSeconds": 30}
    return {"status": "Success", "message": "approved", "retryAfterSeconds": 0}


def handle_initialized(request):
    return {"status": "Success"}


HANDLERS = {
    "approval": ("BeforeClusterCreate", handle_create),
    "initialized": ("AfterControlPlaneInitialized", handle_initialized),
}


def schemas(document):
    """The schema of each hook's request, by path, as the document has it."""
    found = {}
    for path, operations in document["paths"].items():
        ref = operations["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        found[path] = document["components"]["schemas"][ref.rsplit("/", 1)[1]]
    return found


def discover():
    return {"status": "Success", "handlers": [
        {"name": name, "requestHook": {"apiVersion": GROUP, "hook": hook}, "timeoutSeconds": 5, "failurePolicy": "Fail"}
        for name, (hook, _) in sorted(HANDLERS.items())]}


class Extension(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    schemas = {}

    def refuse(self, code):
        self.close_connection = True
        self.send_response(code)
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")  # what is left of the body is not read
        self.end_headers()

    def do_POST(self):
        path = self.path.split("?")[0]
        routes = {"/%s/discovery" % GROUP: ("/%s/discovery" % GROUP, "Discovery", lambda _: discover())}
        for name, (hook, function) in HANDLERS.items():
            base = "/%s/%s" % (GROUP, hook.lower())
            routes[base + "/" + name] = (base + "/{name}", hook, function)
        if path not in routes:
            return self.refuse(404)
        template, hook, function = routes[path]
        length = int(self.headers.get("Content-Length") or -1)
        if length < 0 or length > MAX_BODY:
            return self.refuse(413)
        answer = self.answer(self.rfile.read(length), self.schemas[template], hook, function)
        answer.update({"apiVersion": GROUP, "kind": hook + "Response"})
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def answer(self, body, schema, hook, function):
        try:
            request = json.loads(body)
            if not isinstance(request, dict):
                raise ValueError("the request is not an object")
            if request.get("kind", hook + "Request") != hook + "Request" or request.get("apiVersion", GROUP) != GROUP:
                raise ValueError("the request is of another kind or version")
            for name in schema.get("required", []):
                if not isinstance(request.get(name), dict):
                    raise ValueError("the request has no " + name)
            return function(request)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            return {"status": "Failure", "message": "reading the request: " + type(error).__name__}

    def log_message(self, *args):
        pass


def main():
    with open(sys.argv[1]) as document:
        Extension.schemas = schemas(json.load(document))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(sys.argv[2], sys.argv[3])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Extension)
    server.daemon_threads = True
    server.handle_error = lambda *args: None  # callers break off on purpose
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    print(server.server_address[1], flush=True)
    server.serve_forever()


main()
