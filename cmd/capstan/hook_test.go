package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/plane/hooks"
	"github.com/capstan-dev/capstan/runtime/certificate"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/hookcall"
	"github.com/capstan-dev/capstan/runtime/hooktest"
	"github.com/capstan-dev/capstan/runtime/server"
)

// capstan runs the command line with its own home directory.
func capstan(t *testing.T, in string, args ...string) (code int, out, errOut string) {
	t.Helper()
	t.Setenv("CAPSTAN_HOME", t.TempDir())
	var stdout, stderr bytes.Buffer
	code = run("capstan", args, strings.NewReader(in), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// extensionUnderTest serves an extension, and returns its URL and a file with its CA.
func extensionUnderTest(t *testing.T) (url, caFile string) {
	t.Helper()
	extension := hooktest.Start(t,
		server.Handle(hook.BeforeClusterCreate, "create",
			func(_ context.Context, request *runtimehooksv1.BeforeClusterCreateRequest,
				_ *runtimehooksv1.BeforeClusterCreateResponse) error {
				return server.Wait(time.Minute, "no hosts for "+request.Cluster.Name)
			}),
		server.Handle(hook.BeforeClusterDelete, "delete",
			func(_ context.Context, _ *runtimehooksv1.BeforeClusterDeleteRequest,
				response *runtimehooksv1.BeforeClusterDeleteResponse) error {
				response.Message = "fine"
				return nil
			}))
	caFile = filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(caFile, extension.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	return extension.URL, caFile
}

func TestHookList(t *testing.T) {
	code, out, errOut := capstan(t, "", "hook", "list")
	if code != 0 || !strings.Contains(out, "AfterClusterUpgrade ") || !strings.Contains(out, "v1alpha1") {
		t.Errorf("hook list: exit code %d, %s %s", code, out, errOut)
	}
	code, out, _ = capstan(t, "", "hook", "list", "-o", "json")
	var rows []hooks.Hook
	if err := json.Unmarshal([]byte(out), &rows); err != nil || code != 0 || len(rows) != len(hook.ClusterAPI().All()) {
		t.Errorf("hook list as JSON: exit code %d, %d rows, error %v", code, len(rows), err)
	}
}

func TestHookCall(t *testing.T) {
	url, caFile := extensionUnderTest(t)
	code, out, errOut := capstan(t, "", "hook", "call", "beforeclustercreate", "--url", url, "--ca-file", caFile)
	if code != 0 || !strings.Contains(out, "Blocked") || !strings.Contains(out, "1m0s") ||
		!strings.Contains(out, "no hosts for sample") {
		t.Errorf("hook call with a sample: exit code %d, %s %s", code, out, errOut)
	}
	cluster := "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata:\n  name: blue\nspec:\n  topology:\n" +
		"    version: v1.36.3\n"
	code, out, errOut = capstan(t, cluster, "hook", "call", "BeforeClusterCreate", "--url", url, "--ca-file", caFile, "-f",
		"-", "-o", "json")
	var answers []hookcall.Answer
	if err := json.Unmarshal([]byte(out), &answers); err != nil || code != 0 || len(answers) != 1 ||
		answers[0].Message != "no hosts for blue" || answers[0].Took == "" {
		t.Errorf("hook call with a file: exit code %d, %s %s, error %v", code, out, errOut, err)
	}
	for want, args := range map[string][]string{
		"there is no hook":          {"hook", "call", "BeforeLunch", "--url", url, "--ca-file", caFile},
		"has a handler of hook":     {"hook", "call", "UpdateMachine", "--url", url, "--ca-file", caFile},
		"no management plane":       {"hook", "call", "BeforeClusterCreate"},
		"holds a \"Pod\"":           {"hook", "call", "BeforeClusterCreate", "--url", url, "--ca-file", caFile, "-f", "-"},
		"reading --ca-file":         {"hook", "call", "BeforeClusterCreate", "--url", url, "--ca-file", caFile + "x"},
		"failed to verify certific": {"hook", "call", "BeforeClusterCreate", "--url", url},
	} {
		if code, out, errOut := capstan(t, "apiVersion: v1\nkind: Pod\n", args...); code == 0 ||
			!strings.Contains(errOut, want) {
			t.Errorf("want an error with %s: got exit code %d, %s %s", want, code, out, errOut)
		}
	}
}

func TestHookTest(t *testing.T) {
	url, caFile := extensionUnderTest(t)
	code, out, errOut := capstan(t, "", "hook", "test", url, "--ca-file", caFile, "--strict")
	if code != 0 || out != "" || !strings.Contains(errOut, "conforms: 19 checks, 0 warnings") {
		t.Errorf("all checks: exit code %d, %s %s", code, out, errOut)
	}
	if code, out, errOut := capstan(t, "", "hook", "test", url, "--ca-file", caFile, "-o", "junit", "--only",
		"oversized,quick"); code != 0 || strings.Contains(out, "malformed") || !strings.Contains(out, `name="oversized"`) {
		t.Errorf("two checks: exit code %d, %s %s", code, out, errOut)
	}
	if code, out, _ := capstan(t, "", "hook", "test", url, "--ca-file", caFile, "-o", "junit"); code != 0 ||
		!strings.Contains(out, "<testsuite ") {
		t.Errorf("all checks as junit: exit code %d, %s", code, out)
	}
	code, out, errOut = capstan(t, "", "hook", "test", url, "--ca-file", caFile, "--timeout", "1ns")
	if code != 2 || !strings.Contains(out, "not complete: ") || !strings.Contains(errOut, "not everything was checked") {
		t.Errorf("checks that time out: exit code %d, %s %s", code, out, errOut)
	}
	code, out, errOut = capstan(t, "", "hook", "test", url) // without --ca-file, its certificate is not trusted
	if code != 1 || !strings.Contains(out, url+": MUST ") || !strings.Contains(out, " (https): ") ||
		!strings.Contains(errOut, "does not conform") {
		t.Errorf("an untrusted certificate: exit code %d, %s %s", code, out, errOut)
	}
}

func TestHookOpenAPI(t *testing.T) {
	for format, want := range map[string]string{"json": `"openapi": "3.0.3"`, "yaml": "openapi: 3.0.3"} {
		if code, out, errOut := capstan(t, "", "hook", "openapi", "-o", format); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: exit code %d, %.300s %s", format, code, out, errOut)
		}
	}
}

const providerHooks = `package hooks

import "k8s.io/apimachinery/pkg/runtime/schema"

var GroupVersion = schema.GroupVersion{Group: "hooks.example.org", Version: "v1"}

type Request struct {
	Host string ` + "`json:\"host\"`" + `
	Zone string ` + "`json:\"zone,omitempty\"`" + `
}

type Response struct {
	Status string ` + "`json:\"status\"`" + `
}

func BeforePowerOff(*Request, *Response) {}
`

// TestHookLint: with a lock file, the command finds a breaking change before it is published, and accepts other
// changes.
func TestHookLint(t *testing.T) {
	directory := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(directory, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.org/provider\n\ngo 1.26\n")
	write("hooks/hooks.go", providerHooks)
	lock := filepath.Join(directory, "hooks.lock.json")
	lint := func(more ...string) (int, string, string) {
		return capstan(t, "", append([]string{"hook", "lint", directory, "hooks", "--lock", lock}, more...)...)
	}
	if code, out, errOut := lint(); code == 0 || !strings.Contains(errOut, "--update") {
		t.Errorf("without a lock file: exit code %d, %s %s", code, out, errOut)
	}
	if code, out, errOut := lint("--update"); code != 0 || !strings.Contains(errOut, "1 hooks") {
		t.Errorf("the first --update: exit code %d, %s %s", code, out, errOut)
	}
	if code, out, errOut := lint(); code != 0 || !strings.Contains(errOut, "Nothing breaks") {
		t.Errorf("without a change: exit code %d, %s %s", code, out, errOut)
	}
	write("hooks/hooks.go", strings.Replace(providerHooks, "Zone string", "Rack int64", 1))
	if code, out, errOut := lint(); code != 1 || !strings.Contains(out, "request.zone") ||
		!strings.Contains(out, "it was string and is integer (int64)") {
		t.Errorf("a changed type: exit code %d, %s %s", code, out, errOut)
	}
	if code, _, _ := lint("--update"); code != 1 {
		t.Error("--update overwrote the lock file despite a breaking change")
	}
	write("hooks/hooks.go", strings.Replace(providerHooks, "Zone string",
		"Rack string `json:\"rack,omitempty\"`\n\tZone string", 1))
	if code, out, errOut := lint("--update"); code != 0 {
		t.Errorf("a new field: exit code %d, %s %s", code, out, errOut)
	}
	write("hooks/hooks.go", providerHooks)
	if code, out, _ := lint("-o", "json"); code != 1 || !strings.Contains(out, `"rule": "RS-01"`) {
		t.Errorf("a removed field: exit code %d, %s", code, out)
	}
}

const installedExtension = `apiVersion: v1
kind: List
items:
- apiVersion: runtime.cluster.x-k8s.io/v1beta2
  kind: ExtensionConfig
  metadata: {name: quota}
  status:
    handlers:
    - name: create.quota
      requestHook: {apiVersion: hooks.runtime.cluster.x-k8s.io/v1alpha1, hook: BeforeClusterCreate}
      timeoutSeconds: 10
      failurePolicy: Fail
`

// TestHookPreflight: the upgrade from v1.12 to v1.13 swapped the Cluster in requests, so the command names the affected
// installed extensions (RC-23).
func TestHookPreflight(t *testing.T) {
	code, out, errOut := capstan(t, installedExtension, "hook", "preflight", "--from", "v1.12.0", "--to",
		"v1.13.4", "-f", "-")
	if strings.Contains(errOut, "downloading the module") || strings.Contains(errOut, "Warning:") {
		t.Skipf("the releases can't be downloaded here: %s", errOut)
	}
	if code != 1 || !strings.Contains(out, "create.quota") || !strings.Contains(out, "-: MUST RS-0") ||
		!strings.Contains(errOut, "breaks 1 of 1 handlers") {
		t.Errorf("an upgrade that breaks: exit code %d, %s %s", code, out, errOut)
	}
	code, out, errOut = capstan(t, installedExtension, "hook", "preflight", "--from", "v1.13.4", "--to",
		"v1.13.4", "-f", "-")
	if code != 0 || out != "" || !strings.Contains(errOut, "breaks none of 1 handlers") {
		t.Errorf("to the same release: exit code %d, %s %s", code, out, errOut)
	}
	if code, _, errOut := capstan(t, "{}", "hook", "preflight", "--from", "v1.12.0", "--to", "v1.13.4", "-f",
		"-"); code == 0 || !strings.Contains(errOut, "holds no ExtensionConfigs") {
		t.Errorf("a file without ExtensionConfigs: exit code %d, %s", code, errOut)
	}
}

func TestHookNew(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "quota")
	code, out, errOut := capstan(t, "", "hook", "new", directory, "--module", "example.org/quota", "--sdk",
		"../../runtime")
	if code != 0 || !strings.Contains(out, "handlers_test.go") || !strings.Contains(errOut, "go mod tidy") {
		t.Errorf("hook new: exit code %d, %s %s", code, out, errOut)
	}
	if code, _, errOut := capstan(t, "", "hook", "new", directory, "--module", "example.org/quota", "--sdk",
		"../../runtime"); code == 0 || !strings.Contains(errOut, "is not empty") {
		t.Errorf("hook new in the same directory: exit code %d, %s", code, errOut)
	}
}

// TestHookTestShowsACertificate: the commands present a certificate to a server that asks for one.
func TestHookTestShowsACertificate(t *testing.T) {
	directory := t.TempDir()
	keeper, err := certificate.New(t.Context(), certificate.InDirectory(directory),
		certificate.Options{Hosts: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := keeper.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	extension, err := server.New(server.Options{}, server.Handle(hook.UpdateMachine, "update",
		func(context.Context, *runtimehooksv1.UpdateMachineRequest, *runtimehooksv1.UpdateMachineResponse) error {
			return nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(extension)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{
		Certificates: []tls.Certificate{*pair}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12,
	}
	s.StartTLS()
	defer s.Close()
	file := func(name string) string { return filepath.Join(directory, name) }
	for _, args := range [][]string{
		{"hook", "test", s.URL, "--ca-file", file("ca.crt"), "--only", "quick"},
		{"hook", "call", "UpdateMachine", "--url", s.URL, "--ca-file", file("ca.crt")},
	} {
		if code, out, errOut := capstan(t, "", args...); code == 0 {
			t.Errorf("%s without a certificate succeeded: %s %s", args, out, errOut)
		}
		args = append(args, "--client-cert-file", file("tls.crt"), "--client-key-file", file("tls.key"))
		if code, out, errOut := capstan(t, "", args...); code != 0 {
			t.Errorf("%s: exit code %d, %s %s", args, code, out, errOut)
		}
	}
}
