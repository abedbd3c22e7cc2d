package agent

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/agent/internal/testhost"
	"github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/bundlefile"
	"github.com/capstan-dev/capstan/internal/enrolment"
)

// mirroredVersion is a version of which the host has no bundle.
const mirroredVersion = "v1.37.2"

// mirror is a web server with one bundle. It records the requests that it receives.
type mirror struct {
	url string

	mu      sync.Mutex
	data    []byte
	cuts    int           // how many more downloads to cut off in the middle
	headers []http.Header // of all requests
}

// serveMirror starts a mirror.
func serveMirror(t *testing.T, data []byte) *mirror {
	t.Helper()
	m := &mirror{data: data}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	m.url = server.URL + "/capstan"
	return m
}

func (m *mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	m.headers = append(m.headers, r.Header.Clone())
	data, cut := m.data, m.cuts > 0 && r.Header.Get("Range") != "bytes=0-0"
	if cut {
		m.cuts--
	}
	m.mu.Unlock()
	if r.URL.Path != "/capstan/"+bundlefile.FileName(mirroredVersion, runtime.GOARCH) {
		http.NotFound(w, r)
		return
	}
	sum := sha256.Sum256(data)
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:])+`"`)
	if cut {
		w = &cutOff{ResponseWriter: w, left: len(data) / 3}
	}
	http.ServeContent(w, r, "", time.Unix(0, 0), bytes.NewReader(data))
}

// cutOff breaks its connection after some bytes of the body.
type cutOff struct {
	http.ResponseWriter
	left int
}

func (c *cutOff) Write(data []byte) (int, error) {
	n, err := c.ResponseWriter.Write(data[:min(len(data), c.left)])
	if c.left -= n; c.left == 0 && err == nil {
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, err
}

// take returns the headers of the requests since the last call.
func (m *mirror) take() []http.Header {
	m.mu.Lock()
	defer m.mu.Unlock()
	headers := m.headers
	m.headers = nil
	return headers
}

func (m *mirror) set(change func(m *mirror)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(m)
}

// bundleOf returns a bundle for owned hosts. The bundle's program prints the text what.
func bundleOf(t *testing.T, what string) []byte {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, bytes.Repeat([]byte("#!/bin/sh\n# "+what+"\n"), 1000), 0o755); err != nil {
		t.Fatal(err)
	}
	m := &bundlefile.Manifest{
		Kubernetes: mirroredVersion, Architecture: runtime.GOARCH, Files: []bundlefile.File{{Path: "bin/kubelet"}},
	}
	var out bytes.Buffer
	if err := bundlefile.Write(&out, m, func(string) string { return program }); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// enrollAt enrolls the host with a plane that knows only the digest of a bundle. The function asked returns how many
// requests with a key the plane has received.
func (h *host) enrollAt(t *testing.T, digest string) (asked func() int) {
	t.Helper()
	var mu sync.Mutex
	withKey := 0
	plane := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := enrolment.BundlePath + mirroredVersion + "/linux/" + runtime.GOARCH + enrolment.ChecksumSuffix
		if r.URL.Path != path || len(r.TLS.PeerCertificates) == 0 {
			http.NotFound(w, r)
			return
		}
		mu.Lock()
		withKey++
		mu.Unlock()
		fmt.Fprintln(w, digest)
	}))
	plane.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	plane.StartTLS()
	t.Cleanup(plane.Close)
	text := content(h.config) + "enrolment: " + plane.URL + "\n"
	if err := errors.Join(os.WriteFile(h.config, []byte(text), 0o600), makeKey("/var/lib/capstan")); err != nil {
		t.Fatal(err)
	}
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return withKey
	}
}

// TestABundleFromAMirror: an agent downloads the bundle from its policy's mirror over connections that break. It
// refuses a bundle that does not have the digest that the plane knows, and tells the mirror nothing about itself.
// Preflight on the same host uses the same policy.
func TestABundleFromAMirror(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newOwnedHost(t)
		good, bad := bundleOf(t, "good"), bundleOf(t, "bad")
		sum := sha256.Sum256(good)
		asked := h.enrollAt(t, hex.EncodeToString(sum[:]))
		m := serveMirror(t, bad)
		policy := v1beta2.BundlePolicy{
			Source: v1beta2.BundlesFromMirror, Mirror: v1beta2.BundleMirror{URL: m.url},
		}
		h.api.Change(func() { h.api.Host.Spec.Bundles = policy })
		h.preflight(t, "ok", "come with the bundle of Kubernetes "+mirroredVersion+" of the mirror "+m.url)
		agent := h.start(t, "")
		fetch := func() *v1beta2.BootstrapReport {
			h.claims++
			h.api.ClaimWith(func(c *v1beta2.HostClaim) {
				c.KubernetesVersion, c.Bundles = mirroredVersion, policy
			}, fmt.Sprintf("m%07x", h.claims), "#cloud-config\nruncmd:\n- 'true'\n")
			id := h.api.Host.Spec.Claim.ProviderID
			var last *v1beta2.BootstrapReport
			h.api.Wait(t, "the step after the bundle", func(r *v1beta2.AgentReport) bool {
				last = r.Bootstrap
				return last != nil && last.ProviderID == id &&
					(last.Phase != v1beta2.BootstrapRunning || last.Step != "" && last.Step != "bundle")
			})
			return last
		}
		unpacked := filepath.Join(bundles, mirroredVersion)

		m.take()
		report := fetch()
		if report.Step != "bundle" || !strings.Contains(report.Message, "is not one of "+hex.EncodeToString(sum[:])) {
			t.Errorf("the report about a bundle that is not the plane's: %+v", report)
		}
		left, _ := filepath.Glob(filepath.Join(bundles, "*"+mirroredVersion+"*"))
		hidden, _ := filepath.Glob(filepath.Join(bundles, ".*"+mirroredVersion+"*"))
		if left = append(left, hidden...); len(left) > 0 {
			t.Errorf("files of the refused bundle are left: %q", left)
		}
		h.releaseIt(t, report.ProviderID)

		m.set(func(m *mirror) { m.data, m.cuts = good, 2 })
		m.take()
		if report = fetch(); report.Step == "bundle" {
			t.Errorf("the report about the plane's bundle: %+v", report)
		}
		if text := content(filepath.Join(unpacked, "bin/kubelet")); !strings.Contains(text, "# good\n") {
			t.Errorf("the kubelet of the installed bundle is %.60q", text)
		}
		requests := m.take()
		var ranges []string
		for _, header := range requests {
			ranges = append(ranges, header.Get("Range"))
			for name, values := range header {
				switch name {
				case "Accept-Encoding", "Range", "If-Range", "User-Agent":
				default:
					t.Errorf("the mirror was sent %s: %q", name, values)
				}
			}
			if agent := header.Get("User-Agent"); !strings.HasPrefix(agent, "Go-http-client/") {
				t.Errorf("the User-Agent header tells the mirror %q", agent)
			}
		}
		third := len(good) / 3
		want := fmt.Sprintf(",bytes=%d-,bytes=%d-", third, 2*third)
		if got := strings.Join(ranges, ","); got != want {
			t.Errorf("the mirror was asked for %q, want %q", got, want)
		}
		if asked() == 0 {
			t.Error("the plane was not asked with the host's key")
		}
		h.preflight(t, "ok", "bundles of "+mirroredVersion)
		stop(t, agent)
	})
}

// preflight runs capstan-agent preflight on the host, and checks what it reports about the programs of a node.
func (h *host) preflight(t *testing.T, verdict, found string) {
	t.Helper()
	cmd := exec.Command(testhost.Binary)
	cmd.Args = []string{"capstan-agent", "preflight", "--kubernetes", mirroredVersion}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
		t.Fatalf("preflight: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "kubernetes" {
			if fields[1] != verdict || !strings.Contains(line, found) {
				t.Errorf("preflight says %q, want %s: %s", line, verdict, found)
			}
			return
		}
	}
	t.Errorf("preflight says nothing about the programs of a node:\n%s", out)
}
