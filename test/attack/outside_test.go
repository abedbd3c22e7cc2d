//go:build linux

package attack

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// withoutCredentials returns attempts of somebody who has no credential, but can reach the API server's relay on
// loopback.
func withoutCredentials() []attempt {
	const boundary = "who has no credential is refused"
	secrets := get(core + "secrets")
	bearer := func(token string) request { return headed(secrets, "Authorization: Bearer "+token) }
	return []attempt{
		call(boundary, nobody, "read Secrets", admin, secrets),
		call(boundary, nobody, "discover the API", admin, get("/apis")),
		call(boundary, nobody, "read the version", admin, get("/version")),
		call(boundary, nobody, "read metrics", admin, get("/metrics")),
		call(boundary, nobody, "read health", admin, get("/healthz")),
		callOr(boundary, nobody, "a token without signature", bearer(forged("none", "")), admin, secrets),
		callOr(boundary, nobody, "a token signed with the public authority as key", bearer(forged("HS256", "capstan")),
			admin, secrets),
		callOr(boundary, nobody, "a bootstrap token", bearer("abcdef.0123456789abcdef"), admin, secrets),
		callOr(boundary, nobody, "a name and a password", headed(secrets, "Authorization: Basic YWRtaW46YWRtaW4="), admin,
			secrets),
		callOr(boundary, nobody, "headers of a front proxy", headed(secrets, "X-Remote-User: capstan:manager"), admin,
			secrets),
		callOr(boundary, nobody, "act as the manager", headed(secrets, "Impersonate-User: capstan:manager"), admin, secrets),
	}
}

// forged returns a token that claims to be the manager's.
func forged(algorithm, key string) string {
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"`+algorithm+`","typ":"JWT"}`)) + "." + encode([]byte(
		`{"iss":"https://kubernetes.default.svc.cluster.local","sub":"system:serviceaccount:kube-system:admin",`+
			`"aud":["https://kubernetes.default.svc.cluster.local"],"exp":4102444800}`))
	if key == "" {
		return text + "."
	}
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(text))
	return text + "." + encode(mac.Sum(nil))
}

// workload returns attempts of a workload cluster's administrator on the plane.
func workload() []attempt {
	const boundary = "the plane doesn't know a cluster's certificates"
	return []attempt{
		call(boundary, workloadAdmin, "read the plane's Secrets", admin, get(core+"secrets")),
		call(boundary, workloadAdmin, "ask who it is", admin, post("/apis/authentication.k8s.io/v1/selfsubjectreviews",
			`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`)),
	}
}

// asUser returns an attempt of another user of the machine, as a script. The user who runs the plane runs the script of
// the control.
func asUser(boundary, mechanism, try, control string) attempt {
	run := func(ctx context.Context, w *world, uid int, script string) (string, int, error) {
		ctx, cancel := context.WithTimeout(ctx, scriptLimit)
		defer cancel()
		cmd := exec.CommandContext(ctx, "/bin/bash", "-c", w.fill(script))
		cmd.Env, cmd.Dir, cmd.WaitDelay = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin"}, "/", time.Second
		if uid != os.Geteuid() {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
		}
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			return "", 0, err
		}
		return string(out), cmd.ProcessState.ExitCode(), nil
	}
	return attempt{
		boundary: boundary, who: otherUser, mechanism: mechanism,
		try: func(ctx context.Context, w *world) error {
			out, code, err := run(ctx, w, stranger, try)
			if err != nil || code == 0 {
				return err
			}
			return refused("exit %d: %s", code, message(out))
		},
		control: func(ctx context.Context, w *world) error {
			out, code, err := run(ctx, w, w.uid, control)
			if err != nil || code == 0 {
				return err
			}
			return fmt.Errorf("%s: exit %d: %s", control, code, message(out))
		},
	}
}

// otherUsers returns attempts of another ordinary user of the machine.
func otherUsers() []attempt {
	const files, processes = "the home is its user's", "the user's processes are the user's"
	const ports = "ports on loopback ask who calls"
	same := func(boundary, mechanism, try string) attempt { return asUser(boundary, mechanism, try, try) }
	return []attempt{
		same(files, "read the kubeconfig", `cat {home}/kubeconfig`),
		same(files, "list the home", `ls {home}`),
		same(files, "read the keys", `cat {home}/plane/pki/*.key`),
		same(files, "read etcd's data", `cat {home}/plane/etcd/member/snap/db`),
		same(files, "read a host's token by its path", `cat {home}/dock/hosts/{host}/root/var/lib/capstan/token`),
		same(files, "read the logs", `cat {home}/plane/logs/*.log`),
		same(files, "reach the dock's socket", `python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); `+
			`s.connect("{home}/dock/dock.sock")'`),
		asUser(files, "remove the home", `rm -rf {home}`, `test -w {home}`),
		same(processes, "read the environment of the dock", `cat /proc/{dockpid}/environ`),
		same(processes, "read the memory of the dock", `head -c1 /proc/{dockpid}/maps | grep -q .`),
		same(processes, "list the dock's root directory", `ls /proc/{dockpid}/root/`),
		same(processes, "list the dock's open files", `ls /proc/{dockpid}/fd/`),
		same(processes, "signal the dock", `kill -0 {dockpid}`),
		same(processes, "enter a host", `nsenter --preserve-credentials --target {hostpid} --user --mount true`),
		same(processes, "read a host's files through its first process", `cat /proc/{hostpid}/root/etc/capstan/agent.yaml`),
		asUser(processes, "find a secret in arguments",
			`cat /proc/[0-9]*/cmdline | tr '\0' '\n' | grep -E 'eyJ[A-Za-z0-9_-]{20,}|PRIVATE[ ]KEY'`,
			`cat /proc/[0-9]*/cmdline | tr '\0' '\n' | grep -q capstan`),
		asUser(ports, "read Secrets at the API server's port", `curl -fsk {server}/api/v1/secrets`,
			`curl -sk -o /dev/null {server}/`),
		asUser(ports, "read Secrets at the cluster's port", `curl -fsk {clusterserver}/api/v1/secrets`,
			`curl -sk -o /dev/null {clusterserver}/`),
		asUser(ports, "connect to etcd from the machine", `echo > /dev/tcp/127.0.0.1/{etcdport}`,
			`echo > /dev/tcp/127.0.0.1/{serverport}`),
		asUser(ports, "take a port of the plane", `python3 -c 'import socket; s = socket.socket(); `+
			`s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.setsockopt(socket.SOL_SOCKET, 15, 1); `+
			`s.bind(("127.0.0.1", {serverport}))'`,
			`python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0))'`),
	}
}

// meetProcesses finds the processes of the dock as the machine sees them.
func (w *world) meetProcesses() error {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		data, err := os.ReadFile(file)
		line := string(data)
		if err != nil || !strings.Contains(line, string(w.home)) {
			continue
		}
		for name, part := range map[string]string{"dockpid": "capstan-dock\x00run", "planepid": "capstan\x00plane"} {
			if strings.Contains(line, part) {
				w.vars[name] = filepath.Base(filepath.Dir(file))
			}
		}
	}
	if w.vars["dockpid"] == "" || w.vars["planepid"] == "" {
		return errors.New("the processes of the dock and of the plane were not found")
	}
	w.vars["hostpid"] = strconv.Itoa(w.hosts[w.vars["host"]].PID)
	w.vars["server"], w.vars["clusterserver"] = w.server, w.workload.Host
	w.vars["serverport"] = w.server[strings.LastIndexByte(w.server, ':')+1:]
	return nil
}
