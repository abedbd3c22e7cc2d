package conformance_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/hooktest"
	"github.com/capstan-dev/capstan/runtime/internal/testtls"
	"github.com/capstan-dev/capstan/runtime/openapi"
	"github.com/capstan-dev/capstan/runtime/sample"
	"github.com/capstan-dev/capstan/runtime/server"
)

// python returns the interpreter, and skips the test on a machine without one.
func python(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err == nil {
		err = exec.Command(path, "-c", "import ssl, sys; sys.exit(sys.version_info < (3, 8))").Run()
	}
	if err != nil {
		t.Skipf("there is no python3 (3.8 or later, with ssl) on this machine, so extensions in another language are not "+
			"tried: %v", err)
	}
	return path
}

// document writes the OpenAPI document to a file.
func document(t *testing.T) string {
	t.Helper()
	text, err := openapi.JSON(hook.ClusterAPI(), openapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A server written from the OpenAPI document in another language works with the client, and conforms (RX-09, RX-03,
// RX-06, RX-11).
func TestServerInPython(t *testing.T) {
	interpreter, ca := python(t), testtls.NewAuthority(t)
	certFile, keyFile := ca.Write(t, t.TempDir(), nil)
	cmd := exec.Command(interpreter, "testdata/extension.py", document(t), certFile, keyFile)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	input, err := cmd.StdinPipe() // closed when this process exits
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		late := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the Python server ended with %v: %s", err, stderr.String())
		}
	})
	extension := hooktest.Connect(t, "https://127.0.0.1:"+firstLine(t, stdout), ca.PEM)

	request := &runtimehooksv1.BeforeClusterCreateRequest{Cluster: *sample.Cluster()}
	response, err := hooktest.Call(t, extension, hook.BeforeClusterCreate, request)
	if err != nil || response.RetryAfterSeconds != 30 || response.Message != "waits for approval" {
		t.Errorf("got %+v, %v", response.CommonRetryResponse, err)
	}
	request.Cluster.Annotations = map[string]string{"approved": "yes"}
	response, err = hooktest.Call(t, extension, hook.BeforeClusterCreate, request)
	if err != nil || response.RetryAfterSeconds != 0 || response.Message != "approved" {
		t.Errorf("got %+v, %v", response.CommonRetryResponse, err)
	}
	t.Attr("rule", "RX-09")
	extension.Conforms(t)
}

// firstLine reads what the server prints when it is ready.
func firstLine(t *testing.T, from io.Reader) string {
	t.Helper()
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(from).ReadString('\n')
		lines <- strings.TrimSpace(line)
	}()
	select {
	case line := <-lines:
		if line == "" {
			t.Fatal("the Python server ended before it was ready")
		}
		return line
	case <-time.After(30 * time.Second):
		t.Fatal("the Python server was not ready in time")
	}
	return ""
}

// A client in another language that knows only the OpenAPI document calls our server, each hook with the minimum that
// the document requires.
func TestClientInPython(t *testing.T) {
	interpreter, ca := python(t), testtls.NewAuthority(t)
	extension, err := server.New(server.Options{},
		server.Handle(hook.BeforeClusterCreate, "wait",
			func(context.Context, *runtimehooksv1.BeforeClusterCreateRequest,
				*runtimehooksv1.BeforeClusterCreateResponse) error {
				return server.Wait(time.Minute, "not yet")
			}),
		server.Handle(hook.GeneratePatches, "patches",
			func(context.Context, *runtimehooksv1.GeneratePatchesRequest, *runtimehooksv1.GeneratePatchesResponse) error {
				return nil
			}),
		server.Handle(hook.UpdateMachine, "update", func(context.Context, *runtimehooksv1.UpdateMachineRequest,
			*runtimehooksv1.UpdateMachineResponse) error {
			return errors.New("no license")
		}))
	if err != nil {
		t.Fatal(err)
	}
	s := ca.Serve(t, extension, nil)
	caFile := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(caFile, ca.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	host, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "https://"), ":")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, interpreter, "testdata/call.py", document(t), host, port, caFile).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Fatalf("%v: %s", err, exit.Stderr)
	} else if err != nil {
		t.Fatal(err)
	}
	var answers map[string]struct {
		Kind, Status, Message string
		RetryAfterSeconds     int
	}
	if err := json.Unmarshal(out, &answers); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if a := answers["wait"]; a.Kind != "BeforeClusterCreateResponse" || a.Status != "Success" ||
		a.RetryAfterSeconds != 60 {
		t.Errorf("wait: %+v", a)
	}
	if a := answers["patches"]; a.Kind != "GeneratePatchesResponse" || a.Status != "Success" {
		t.Errorf("patches: %+v", a)
	}
	if a := answers["update"]; a.Kind != "UpdateMachineResponse" || a.Status != "Failure" || a.Message != "no license" {
		t.Errorf("update: %+v", a)
	}
}
