//go:build linux

package clusterctl

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/util/cert"

	"github.com/capstan-dev/capstan/test/apiserver"
)

// The URLs of a hosted release, as in docs/clusterctl.md.
const (
	githubURL = "https://github.com/capstan-dev/capstan/releases/latest/"
	gitlabURL = "https://gitlab.example.com/api/v4/projects/group%2Fcapstan/packages/generic/"
	goProxy   = "https://goproxy.example.com"
)

// site is a place that hosts a release: it returns the URL of a provider's file there.
type site func(directory, file string) string

func gitHub(_, file string) string { return githubURL + file }

func gitLab(directory, file string) string { return gitlabURL + directory + "/" + current + "/" + file }

// write writes a clusterctl configuration that looks for our providers at a site. It leaves the URLs of other providers
// unchanged.
func (h *hosts) write(w *world, dir string, at site) string {
	w.Helper()
	text, err := os.ReadFile(w.config)
	w.must(err)
	for directory, file := range map[string]string{
		"infrastructure-capstan":    "infrastructure-components.yaml",
		"runtime-extension-capstan": "runtime-extension-components.yaml",
	} {
		old := regexp.MustCompile(`"file://[^"]*/` + file + `"`)
		if !old.Match(text) {
			w.Fatalf("the configuration does not name %s", file)
		}
		text = old.ReplaceAll(text, []byte(strconv.Quote(at(directory, file))))
	}
	config := filepath.Join(dir, "clusterctl.yaml")
	w.must(os.WriteFile(config, text, 0o600))
	return config
}

// TestHosted: the real clusterctl finds the files of a release as assets of a GitHub release and as a GitLab package,
// at the URLs in docs/clusterctl.md. The files equal those in the directory. A server of the test plays these sites;
// clusterctl reaches it through a proxy.
func TestHosted(t *testing.T) {
	w := newWorld(t)
	h := w.host()
	page, err := os.ReadFile(filepath.Join(apiserver.Root(), "docs", "clusterctl.md"))
	w.must(err)
	for _, url := range []string{
		strings.Replace(gitHub("", "infrastructure-components.yaml"), "capstan-dev/capstan", "ORGANIZATION/REPOSITORY", 1),
		gitLab("infrastructure-capstan", "infrastructure-components.yaml"),
	} {
		if !strings.Contains(string(page), url) {
			t.Errorf("docs/clusterctl.md does not say that a release is at %s", url)
		}
		t.Attr("rule", "CT-01")
	}
	for where, at := range map[string]site{"GitHub": gitHub, "GitLab": gitLab} {
		t.Run(where, func(t *testing.T) {
			one := *w
			one.T = t
			one.config = h.write(w, t.TempDir(), at)
			one.sameAs(w.config)
			t.Attr("rule", "CT-01")
			if where == "GitHub" {
				t.Attr("rule", "CT-16")
				return
			}
			t.Attr("rule", "CT-19")
			h.onePackage(t)
			one.refusedURLs(t)
		})
	}
}

// sameAs runs clusterctl with the configuration of this world and with another one. The outputs must be the same.
func (w *world) sameAs(local string) {
	w.Helper()
	generate := func(config string, args ...string) string {
		one := *w
		one.config = config
		return one.run(append([]string{"generate"}, args...)...)
	}
	for _, args := range [][]string{
		{"provider", "--infrastructure", "capstan:" + current}, {"provider", "--runtime-extension", "capstan:" + current},
	} {
		if got, want := generate(w.config, args...), generate(local, args...); got != want || len(got) < 1000 {
			w.Errorf("%s: the components differ from those in the directory: %d bytes, not %d",
				args[1], len(got), len(want))
		}
	}
	cluster := []string{"cluster", "blue", "--infrastructure", "capstan:" + current, "--flavor", "topology",
		"--kubernetes-version", "v1.36.3", "--target-namespace", "default"}
	got, want := generate(w.config, cluster...), generate(local, cluster...)
	if got != want || !strings.Contains(got, "kind: ClusterClass") {
		w.Errorf("want the flavor of the directory, with its class, got\n%s", got)
	}
	w.refused("v9.9.9", "generate", "provider", "--infrastructure", "capstan:v9.9.9")
}

// onePackage checks the requests to GitLab: components, metadata and templates of a provider must be in one version of
// one package of a project.
func (h *hosts) onePackage(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	found := map[string][]string{}
	for _, path := range h.served {
		if file, ok := strings.CutPrefix(path, "gitlab.example.com/api/v4/projects/group%2Fcapstan/packages/generic/"); ok {
			found[filepath.Dir(file)] = append(found[filepath.Dir(file)], filepath.Base(file))
		}
	}
	want := map[string][]string{
		"infrastructure-capstan/" + current: {
			"cluster-template-topology.yaml", "clusterclass-capstan-local.yaml", "infrastructure-components.yaml",
			"metadata.yaml",
		},
		"runtime-extension-capstan/" + current: {"metadata.yaml", "runtime-extension-components.yaml"},
	}
	for version, files := range found {
		slices.Sort(files)
		found[version] = slices.Compact(files)
	}
	if !maps.EqualFunc(found, want, slices.Equal) {
		t.Errorf("the files came from %v, want %v", found, want)
	}
	t.Attr("rule", "CT-22")
}

// refusedURLs checks that clusterctl accepts only those forms of a GitLab URL that docs/clusterctl.md documents.
func (w *world) refusedURLs(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(w.config)
	w.must(err)
	refused := func(want, old, other string) {
		t.Helper()
		one := *w
		one.config = filepath.Join(t.TempDir(), "clusterctl.yaml")
		w.must(os.WriteFile(one.config, bytes.ReplaceAll(text, []byte(old), []byte(other)), 0o600))
		one.refused(want, "generate", "provider", "--infrastructure", "capstan")
	}
	refused("invalid provider url", "gitlab.example.com", "git.example.com")
	t.Attr("rule", "CT-20")
	refused("in the form https://{host}/api/v4/projects/{projectSlug}", "group%2Fcapstan", "group/capstan")
	parts := strings.Split(gitLab("infrastructure-capstan", "infrastructure-components.yaml"), "/")
	if _, err := utilversion.ParseSemantic(parts[len(parts)-2]); err != nil {
		t.Errorf("the version in the URL of docs/clusterctl.md is not a semantic version: %v", err)
	}
	t.Attr("rule", "CT-21")
}

// TestVersionsAreFound: if no version is given, clusterctl uses the latest release of the contract. It finds that
// release through a Go proxy, or directly from GitHub if GOPROXY says so.
func TestVersionsAreFound(t *testing.T) {
	for goproxy, asks := range map[string]bool{goProxy: true, "off": false, "direct": false} {
		t.Run(goproxy, func(t *testing.T) {
			w := newWorld(t)
			h := w.host()
			w.env = append(w.env, "GOPROXY="+goproxy) // the last value of a variable counts
			w.config = h.write(w, t.TempDir(), gitHub)
			out := w.run("generate", "provider", "--infrastructure", "capstan")
			if !strings.Contains(out, "capstan-manager:"+newer) {
				t.Errorf("clusterctl does not use the latest release of the contract, %s", newer)
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			asked := func(url string) bool { return slices.Contains(h.asked, url) }
			if proxy := asked("goproxy.example.com/github.com/capstan-dev/capstan/@v/list"); proxy != asks {
				t.Errorf("the Go proxy was asked: %t, want %t: %q", proxy, asks, h.asked)
			}
			if github := asked("api.github.com/repos/capstan-dev/capstan/releases"); github == asks {
				t.Errorf("GitHub was asked for its releases: %t, want %t: %q", github, !asks, h.asked)
			}
			t.Attr("rule", "CT-17")
		})
	}
}

// hosts is a server that plays several sites: github.com, a GitLab and a Go proxy.
type hosts struct {
	repository string

	mu            sync.Mutex
	asked, served []string
}

// host starts that server, and configures clusterctl so that it can reach nothing else.
func (w *world) host() *hosts {
	w.Helper()
	h := &hosts{repository: w.repository}
	certificate, key, err := cert.GenerateSelfSignedCertKey("github.com", nil,
		[]string{"api.github.com", "gitlab.example.com", "goproxy.example.com"})
	w.must(err)
	pair, err := tls.X509KeyPair(certificate, key)
	w.must(err)
	server := httptest.NewUnstartedServer(h)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	w.Cleanup(server.Close)
	proxy := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		connect(out, r, server.Listener.Addr().String())
	}))
	w.Cleanup(proxy.Close)
	authority := filepath.Join(w.home, "authority.pem")
	w.must(os.WriteFile(authority, certificate, 0o600))
	w.env = []string{"HTTPS_PROXY=" + proxy.URL, "SSL_CERT_FILE=" + authority, "GOPROXY=" + goProxy}
	return h
}

// connect acts as a proxy that directs every connection to one address.
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

// ServeHTTP answers as these sites would.
func (h *hosts) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	url := r.Host + r.URL.EscapedPath()
	h.mu.Lock()
	h.asked = append(h.asked, url)
	h.mu.Unlock()
	text := h.answer(url)
	if text == nil {
		http.NotFound(out, r)
		return
	}
	h.mu.Lock()
	h.served = append(h.served, url)
	h.mu.Unlock()
	_, _ = out.Write(text)
}

// answer returns the content of a URL, or nil if there is none.
func (h *hosts) answer(url string) []byte {
	host, path, _ := strings.Cut(url, "/")
	switch host {
	case "goproxy.example.com":
		if path == "github.com/capstan-dev/capstan/@v/list" {
			return fmt.Appendf(nil, "%s\n%s\n%s\n", older, current, newer)
		}
	case "github.com":
		if tag, file, ok := strings.Cut(strings.TrimPrefix(path, "capstan-dev/capstan/releases/download/"), "/"); ok {
			return h.asset(tag, file)
		}
	case "api.github.com":
		return h.api(strings.TrimPrefix(path, "repos/capstan-dev/capstan/releases"))
	case "gitlab.example.com":
		file, ok := strings.CutPrefix(path, "api/v4/projects/group%2Fcapstan/packages/generic/")
		if ok && filepath.IsLocal(file) {
			text, _ := os.ReadFile(filepath.Join(h.repository, file))
			return text
		}
	}
	return nil
}

// asset returns a file of a release on GitHub, where all assets of a release share one list of names.
func (h *hosts) asset(tag, file string) []byte {
	for _, directory := range []string{"infrastructure-capstan", "runtime-extension-capstan"} {
		if text, err := os.ReadFile(filepath.Join(h.repository, directory, tag, filepath.Base(file))); err == nil {
			return text
		}
	}
	return nil
}

// api returns the answers of GitHub's API about releases: the list, one release with its assets, an asset.
func (h *hosts) api(path string) []byte {
	versions, files := []string{older, current, newer}, []string{"metadata.yaml", "infrastructure-components.yaml"}
	type asset struct {
		ID   int    `json:"id"`
		Name string `json:"name"`
	}
	type release struct {
		TagName string  `json:"tag_name"`
		Assets  []asset `json:"assets"`
	}
	var all []release
	for i, v := range versions {
		one := release{TagName: v}
		for j, file := range files {
			id := 10*i + j + 1
			one.Assets = append(one.Assets, asset{id, file})
			if path == "/assets/"+strconv.Itoa(id) {
				return h.asset(v, file)
			}
		}
		if path == "/tags/"+v {
			text, _ := json.Marshal(one)
			return text
		}
		all = append(all, one)
	}
	if path != "" {
		return nil
	}
	text, _ := json.Marshal(all)
	return text
}
