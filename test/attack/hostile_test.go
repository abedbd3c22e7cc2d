//go:build linux

package attack

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/runtime/certificate"
)

const (
	// hostileDir is the environment variable that makes this test binary play a hostile extension instead of running
	// tests.
	hostileDir = "CAPSTAN_ATTACK_EXTENSION"
	// urlFile and authorityFile are in that directory once the extension is served.
	urlFile, authorityFile = "url", "ca.crt"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(hostileDir); dir != "" {
		if err := serveHostile(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveHostile plays hostile extensions until its standard input is closed. The first part of a request's path selects
// one.
func serveHostile(dir string) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	keeper, err := certificate.New(ctx, certificate.InDirectory(filepath.Join(dir, "certificate")),
		certificate.Options{Hosts: []string{"127.0.0.1"}, Name: "hostile"})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(answer), ReadHeaderTimeout: time.Minute}
	server.TLSConfig = &tls.Config{GetCertificate: keeper.GetCertificate, MinVersion: tls.VersionTLS12}
	if err := os.WriteFile(filepath.Join(dir, authorityFile), keeper.Authorities(), 0o600); err != nil {
		return err
	}
	url := filepath.Join(dir, urlFile)
	if err := os.WriteFile(url+".new", []byte("https://"+listener.Addr().String()), 0o600); err != nil {
		return err
	}
	if err := os.Rename(url+".new", url); err != nil {
		return err
	}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// answer answers one call in the way that the path selects.
func answer(w http.ResponseWriter, r *http.Request) {
	how, hook, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/hooks.runtime.cluster.x-k8s.io/v1alpha1/")
	w.Header().Set("Content-Type", "application/json")
	if strings.HasPrefix(hook, "discovery") {
		discover(w, how)
		return
	}
	switch how {
	case "hang":
		<-r.Context().Done()
	case "drip":
		for r.Context().Err() == nil {
			flush(w, " ")
			time.Sleep(100 * time.Millisecond)
		}
	case "endless":
		flush(w, `{"message":"`)
		for r.Context().Err() == nil {
			flush(w, long(1<<20))
		}
	case "deep":
		flush(w, strings.Repeat(`{"a":`, 100000)+"1"+strings.Repeat("}", 100000))
	case "redirect":
		http.Redirect(w, r, "https://127.0.0.1:2379/version", http.StatusTemporaryRedirect)
	case "another":
		flush(w, `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"DiscoveryResponse","status":"Success"}`)
	case "cut":
		w.Header().Set("Content-Length", "1000")
		flush(w, `{"apiVersion":`)
		panic(http.ErrAbortHandler)
	case "html":
		w.Header().Set("Content-Type", "text/html")
		flush(w, "<html>")
	case "bell":
		flush(w, response("BeforeClusterCreate", "Failure", `"message":"\u001b]0;owned\u0007\u202e"`))
	case "copies":
		flush(w, patches(r.Body, doubled(22)))
	case "operations":
		flush(w, patches(r.Body, `[`+strings.Repeat(`{"op":"add","path":"/metadata/labels","value":{}},`, 99999)+
			`{"op":"add","path":"/metadata/labels","value":{}}]`))
	default:
		flush(w, response("BeforeClusterCreate", "Success", `"retryAfterSeconds":0`))
	}
}

// discover answers a discovery request with one handler for the requested hook.
func discover(w io.Writer, how string) {
	hook, name := "BeforeClusterCreate", "create"
	switch how {
	case "copies", "operations":
		hook, name = "GeneratePatches", "generate"
	case "registrations":
		flush(w,
			`{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"DiscoveryResponse","status":"Success","handlers":[`)
		for range 64 {
			if _, err := io.WriteString(w, strings.Repeat(handler("h", "BeforeClusterCreate")+",", 10000)); err != nil {
				return
			}
		}
		return
	}
	flush(w, response("Discovery", "Success", `"handlers":[`+handler(name, hook)+`]`))
}

func handler(name, hook string) string {
	return `{"name":"` + name + `","requestHook":{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","hook":"` + hook +
		`"},"timeoutSeconds":2,"failurePolicy":"Fail"}`
}

func response(hook, status, more string) string {
	return `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"` + hook + `Response","status":"` +
		status + `",` +
		more + `}`
}

// doubled returns a patch that copies a document into itself n times.
func doubled(n int) string {
	var operations []string
	for i := range n {
		operations = append(operations, fmt.Sprintf(`{"op":"copy","from":"/spec","path":"/spec/x%d"}`, i))
	}
	return "[" + strings.Join(operations, ",") + "]"
}

// patches answers GeneratePatches with one patch for every item.
func patches(request io.Reader, patch string) string {
	var asked struct{ Items []struct{ UID string } }
	if err := json.NewDecoder(request).Decode(&asked); err != nil {
		return response("GeneratePatches", "Failure", `"message":"bad request"`)
	}
	encoded, _ := json.Marshal([]byte(patch))
	var items []string
	for _, item := range asked.Items {
		items = append(items, `{"uid":"`+item.UID+`","patchType":"JSONPatch","patch":`+string(encoded)+`}`)
	}
	return response("GeneratePatches", "Success", `"items":[`+strings.Join(items, ",")+`]`)
}

// withPatch returns a copy of a ClusterClass whose patches come from a handler.
func withPatch(class, name, handler string) (string, error) {
	var object map[string]any
	if err := json.Unmarshal([]byte(class), &object); err != nil {
		return "", err
	}
	spec, _ := object["spec"].(map[string]any)
	object["metadata"] = map[string]any{"name": name}
	delete(object, "status")
	spec["patches"] = []any{map[string]any{
		"name": "hostile", "external": map[string]any{"generatePatchesExtension": handler},
	}}
	data, err := json.Marshal(object)
	return string(data), err
}

// flush writes a part of an answer at once.
func flush(w io.Writer, part string) {
	_, _ = io.WriteString(w, part)
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}
