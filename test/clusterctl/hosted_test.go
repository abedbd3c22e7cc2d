//go:build linux

package clusterctl

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/util/cert"
)

// Where the release is hosted, as docs/clusterctl.md says.
const (
	githubURL = "https://github.com/capstan-dev/capstan/releases/latest/"
	gitlabURL = "https://gitlab.example.com/api/v4/projects/group%2Fcapstan/packages/generic/"
	goProxy   = "https://goproxy.example.com"
)

// TestHosted: the real clusterctl finds the files of a release as the assets of a GitHub release and as a GitLab package, and they are those of the folder. The hosts are played by a server of the test,
// which clusterctl reaches through a proxy. CT-01, CT-15 to CT-17, CT-19 to CT-22
func TestHosted(t *testing.T) {
	w := newWorld(t)
	local := w.config
	h := w.host()
	generate := func(w world, config string, args ...string) string {
		w.config = config
		return w.run(append([]string{"generate"}, args...)...)
	}
	providers := map[string][]string{
		"infrastructure":    {"provider", "--infrastructure", "capstan:" + current},
		"runtime extension": {"provider", "--runtime-extension", "capstan:" + current},
	}
	for where, url := range map[string]func(folder, file string) string{
		"GitHub": func(_, file string) string { return githubURL + file },
		"GitLab": func(folder, file string) string { return gitlabURL + folder + "/" + current + "/" + file },
	} {
		t.Run(where, func(t *testing.T) {
			w := *w
			w.T = t
			config := filepath.Join(t.TempDir(), "clusterctl.yaml")
			w.must(os.WriteFile(config, fmt.Appendf(nil, "providers:\n  - {name: capstan, type: InfrastructureProvider, url: %q}\n  - {name: capstan, type: RuntimeExtensionProvider, url: %q}\n",
				url("infrastructure-capstan", "infrastructure-components.yaml"), url("runtime-extension-capstan", "runtime-extension-components.yaml")), 0o600))
			for what, args := range providers {
				if got, want := generate(w, config, args...), generate(w, local, args...); got != want || len(got) < 1000 {
					t.Errorf("the components of the %s are not those of the folder: %d bytes, not %d", what, len(got), len(want))
				}
			}
			if where == "GitHub" && !strings.Contains(generate(w, config, "provider", "--infrastructure", "capstan"), "capstan-manager:"+newer) {
				t.Errorf("without a version, it is not the latest one of the contract, %s", newer)
			}
			cluster := []string{"cluster", "blue", "--infrastructure", "capstan:" + current, "--flavor", "topology", "--kubernetes-version", "v1.36.3", "--target-namespace", "default"}
			if got, want := generate(w, config, cluster...), generate(w, local, cluster...); got != want || !strings.Contains(got, "kind: ClusterClass") {
				t.Errorf("the flavor is not that of the folder, with its class: it is\n%s", got)
			}
			w.config = config
			w.refused("v9.9.9", "generate", "provider", "--infrastructure", "capstan:v9.9.9")
		})
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(h.asked, "goproxy.example.com/github.com/capstan-dev/capstan/@v/list") {
		t.Errorf("clusterctl has not looked for versions: asked was for %q", h.asked)
	}
}

// hosts are github.com, a GitLab and a Go proxy.
type hosts struct {
	repository string

	mu    sync.Mutex
	asked []string
}

// host starts the hosts, and makes clusterctl reach them and nothing else.
func (w *world) host() *hosts {
	w.Helper()
	h := &hosts{repository: w.repository}
	certificate, key, err := cert.GenerateSelfSignedCertKey("github.com", nil, []string{"api.github.com", "gitlab.example.com", "goproxy.example.com"})
	w.must(err)
	pair, err := tls.X509KeyPair(certificate, key)
	w.must(err)
	server := httptest.NewUnstartedServer(h)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	w.Cleanup(server.Close)
	proxy := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) { connect(out, r, server.Listener.Addr().String()) }))
	w.Cleanup(proxy.Close)
	authority := filepath.Join(w.home, "authority.pem")
	w.must(os.WriteFile(authority, certificate, 0o600))
	w.env = []string{"HTTPS_PROXY=" + proxy.URL, "SSL_CERT_FILE=" + authority, "GOPROXY=" + goProxy}
	return h
}

// connect is a proxy that leads everywhere to one address.
func connect(out http.ResponseWriter, r *http.Request, address string) {
	if r.Method != http.MethodConnect {
		http.Error(out, "only for https", http.StatusMethodNotAllowed)
		return
	}
	far, err := net.Dial("tcp", address)
	if err != nil {
		http.Error(out, err.Error(), http.StatusBadGateway)
		return
	}
	defer far.Close()
	near, _, err := http.NewResponseController(out).Hijack()
	if err != nil {
		return
	}
	defer near.Close()
	_, _ = io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		_, _ = io.Copy(far, near)
		_ = far.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(near, far)
}

// ServeHTTP answers as the three hosts do.
func (h *hosts) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.asked = append(h.asked, r.Host+r.URL.EscapedPath())
	h.mu.Unlock()
	path := r.URL.EscapedPath()
	switch r.Host {
	case "goproxy.example.com":
		if path == "/github.com/capstan-dev/capstan/@v/list" {
			fmt.Fprintf(out, "%s\n%s\n%s\n", older, current, newer)
			return
		}
	case "github.com":
		// All assets of a release have one list of names.
		if tag, file, ok := strings.Cut(strings.TrimPrefix(path, "/capstan-dev/capstan/releases/download/"), "/"); ok {
			for _, folder := range []string{"infrastructure-capstan", "runtime-extension-capstan"} {
				if text, err := os.ReadFile(filepath.Join(h.repository, folder, tag, filepath.Base(file))); err == nil {
					_, _ = out.Write(text)
					return
				}
			}
		}
	case "gitlab.example.com":
		if file, ok := strings.CutPrefix(path, "/api/v4/projects/group%2Fcapstan/packages/generic/"); ok && filepath.IsLocal(file) {
			if text, err := os.ReadFile(filepath.Join(h.repository, file)); err == nil {
				_, _ = out.Write(text)
				return
			}
		}
	}
	http.NotFound(out, r)
}
