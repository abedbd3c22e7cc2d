package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/runtime/certificate"
	"github.com/capstan-dev/capstan/runtime/inplace"
	"github.com/capstan-dev/capstan/runtime/server"
)

// extensionDir is the variable that makes this test binary play an extension instead of running tests.
const extensionDir = "CAPSTAN_E2E_EXTENSION"

// Files in the directory of the extension.
const (
	urlFile   = "url"
	callsFile = "calls.jsonl"
	goFile    = "go" // updates wait until it exists
)

// hookCall is one line of callsFile: a call that the extension received.
type hookCall struct {
	Hook    string
	Request struct {
		Current, Desired struct {
			Machine, MachineSet                      struct{ Metadata struct{ Name string } }
			BootstrapConfig, BootstrapConfigTemplate json.RawMessage
		}
	}
}

// about names the object that the call is about.
func (c hookCall) about() string {
	return c.Request.Desired.Machine.Metadata.Name + c.Request.Desired.MachineSet.Metadata.Name
}

// serveExtension plays an extension that updates files in place and declines everything else, until standard input is
// closed.
func serveExtension(dir string) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	keeper, err := certificate.New(ctx, certificate.InDirectory(filepath.Join(dir, "certificate")),
		certificate.Options{Hosts: []string{"127.0.0.1"}, Name: "in-place"})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), keeper.Authorities(), 0o600); err != nil {
		return err
	}
	begun := map[string]bool{}
	var mu sync.Mutex
	updater := inplace.Updater{
		Takes: []inplace.Rule{inplace.Fields(inplace.KubeadmConfig, "files")},
		Update: func(_ context.Context, machine inplace.Desired) error {
			mu.Lock()
			defer mu.Unlock()
			if _, err := os.Stat(filepath.Join(dir, goFile)); err != nil || !begun[machine.Machine.Name] {
				begun[machine.Machine.Name] = true
				return server.Wait(time.Second, "writing files")
			}
			return nil
		},
	}
	extension, err := server.New(server.Options{}, updater.Handlers("files")...)
	if err != nil {
		return err
	}
	calls, err := os.OpenFile(filepath.Join(dir, callsFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer calls.Close()
	return server.Serve(ctx, server.TLS{
		Address: "127.0.0.1:0", GetCertificate: keeper.GetCertificate,
		Ready: func(address net.Addr) {
			draft := filepath.Join(dir, urlFile+".new")
			if os.WriteFile(draft, []byte("https://"+address.String()), 0o600) == nil {
				_ = os.Rename(draft, filepath.Join(dir, urlFile))
			}
		},
	}, noted{extension, calls, nil})
}

// register starts the extension in the dock's network, where the plane can reach it, and registers it. It undoes both
// at the end of the test.
func register(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	var output bytes.Buffer
	cmd, stdin := inDock(t, extensionDir+"="+dir, &output)
	t.Cleanup(func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the extension exited with: %v\n%s", err, output.String())
		}
	})
	var url []byte
	eventually(t, "the extension is served", func() (err error) {
		url, err = os.ReadFile(filepath.Join(dir, urlFile))
		return err
	})
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	apply(t,
		fmt.Sprintf("apiVersion: runtime.cluster.x-k8s.io/v1beta2\nkind: ExtensionConfig\nmetadata:\n  name: in-place\n"+
			"spec:\n  clientConfig:\n    url: %s\n    caBundle: %s\n",
			url, base64.StdEncoding.EncodeToString(ca)))
	t.Cleanup(func() { // the test's context has ended
		if out, err := command(context.Background(), "kubectl", "delete", "extensionconfig",
			"in-place").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	eventually(t, "the extension is discovered", func() error {
		if out := must(t, "hook", "list"); !strings.Contains(out, "files-update.in-place") {
			return fmt.Errorf("the hooks are\n%s", out)
		}
		return nil
	})
	return dir
}

// apply creates or changes objects.
func apply(t *testing.T, manifest string) {
	t.Helper()
	cmd := command(t.Context(), "kubectl", "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// callsIn returns the calls that the extension received, in order.
func callsIn(t *testing.T, dir string) []hookCall {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, callsFile))
	if err != nil {
		t.Fatal(err)
	}
	var all []hookCall
	for line := range strings.Lines(string(data)) {
		var c hookCall
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if c.Hook != "discovery" {
			all = append(all, c)
		}
	}
	return all
}
