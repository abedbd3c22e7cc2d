package bundle

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/agent/fault"
	"github.com/capstan-dev/capstan/internal/bundlefile"
)

// archived returns a bundle for owned hosts of this architecture.
func archived(t *testing.T, version string) []byte {
	t.Helper()
	dir := t.TempDir()
	m := &bundlefile.Manifest{Kubernetes: version, Architecture: runtime.GOARCH}
	for _, path := range []string{"bin/kubelet", "bin/kubeadm", "cni/ptp"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), bytes.Repeat([]byte(path), 1000), 0o644); err != nil {
			t.Fatal(err)
		}
		m.Files = append(m.Files, bundlefile.File{Path: path})
	}
	var out bytes.Buffer
	if err := bundlefile.Write(&out, m, func(path string) string { return filepath.Join(dir, path) }); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// served serves a bundle at the plane's path, if data is not nil. If cut is not 0, the server cuts off each response
// after that many bytes.
func served(t *testing.T, version string, data []byte, cut int) (plane *Plane, ranges *[]string) {
	t.Helper()
	ranges = &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*ranges = append(*ranges, r.Header.Get("Range"))
		if r.URL.Path != "/v1/bundle/"+version+"/linux/"+runtime.GOARCH || data == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("ETag", `"1"`)
		if cut > 0 {
			w = &cutter{ResponseWriter: w, left: cut}
		}
		http.ServeContent(w, r, "", time.Unix(0, 0), bytes.NewReader(data))
	}))
	t.Cleanup(server.Close)
	return &Plane{URL: server.URL, HTTP: server.Client()}, ranges
}

// cutter closes a connection after some bytes.
type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(data []byte) (int, error) {
	if c.left -= len(data); c.left <= 0 {
		_, _ = c.ResponseWriter.Write(data[:len(data)+c.left])
		c.ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(data)
}

func TestProvide(t *testing.T) {
	const version = "v1.36.3"
	data := archived(t, version)
	for name, c := range map[string]struct {
		policy  Policy
		plane   []byte // the plane's bundle; nil if the plane has none
		nowhere bool   // there is no plane
		file    []byte // the file in the directory
		version string
		fails   string
		there   bool
	}{
		"from the plane":                 {policy: FromPlane, plane: data, there: true},
		"from anywhere: a bundle":        {plane: data, there: true},
		"from anywhere: no bundle":       {},
		"from anywhere, without a plane": {nowhere: true},
		"from the plane: no bundle":      {policy: FromPlane, fails: "the plane has no bundle of Kubernetes v1.36.3"},
		"from the plane: no plane":       {policy: FromPlane, nowhere: true, fails: "knows no plane"},
		"from packages":                  {policy: FromPackages, plane: data},
		"from the directory":             {policy: FromDirectory, file: data, there: true},
		"the directory comes first":      {policy: FromPlane, file: data, there: true},
		"the directory has no bundle":    {policy: FromDirectory, plane: data, fails: "copy "},
		"a damaged bundle on the disk":   {policy: FromDirectory, file: data[:len(data)/2], fails: "is damaged"},
		"a damaged bundle of the plane":  {policy: FromPlane, plane: data[:len(data)/2], fails: "is damaged"},
		"a bundle of another version": {policy: FromPlane, plane: archived(t, "v1.35.4"),
			fails: "contains the bundle of v1.35.4"},
		"a path as a version":       {policy: FromPlane, plane: data, version: "../x", fails: "there are no bundles"},
		"a claim without a version": {policy: FromPlane, plane: data, version: "-"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "bundles")
			wanted := version
			if c.version != "" {
				wanted = strings.Trim(c.version, "-")
			}
			plane, _ := served(t, version, c.plane, 0)
			if c.nowhere {
				plane = nil
			}
			if c.file != nil {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(dir, bundlefile.FileName(version, runtime.GOARCH))
				if err := os.WriteFile(path, c.file, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			err := Provide(t.Context(), dir, wanted, Source{Policy: c.policy, Plane: plane})
			if c.fails == "" && err != nil || c.fails != "" && !strings.Contains(fault.Text(err, ""), c.fails) {
				t.Fatalf("got %v, want %q", err, c.fails)
			}
			if m, err := Node(dir, version); err != nil || (m != nil) != c.there {
				t.Errorf("the directory has %v, %v", m, err)
			}
			if parts, _ := filepath.Glob(filepath.Join(dir, ".*")); len(parts) > 0 {
				t.Errorf("partial files left: %v", parts)
			}
		})
	}
}

// A connection that keeps breaking loses nothing that was already downloaded.
func TestADownloadGoesOnWhereItWas(t *testing.T) {
	data := archived(t, "v1.36.3")
	plane, ranges := served(t, "v1.36.3", data, len(data)*2/3)
	dir := filepath.Join(t.TempDir(), "bundles")
	if err := Provide(t.Context(), dir, "v1.36.3", Source{Policy: FromPlane, Plane: plane}); err != nil {
		t.Fatal(err)
	}
	if len(*ranges) != 2 || (*ranges)[0] != "" || !strings.HasPrefix((*ranges)[1], "bytes=") {
		t.Errorf("the agent asked for %q", *ranges)
	}
	if m, err := Node(dir, "v1.36.3"); err != nil || m == nil {
		t.Errorf("got %v, %v", m, err)
	}
}

// An agent that is killed between downloading and using a bundle downloads the bundle again only if the file is not the
// plane's bundle.
func TestACompleteDownloadIsUsed(t *testing.T) {
	const version = "v1.36.3"
	data := archived(t, version)
	damaged := slices.Clone(data)
	damaged[len(damaged)/2] ^= 1
	for name, c := range map[string]struct {
		part   []byte
		digest string // the digest of the plane's bundle; empty if the plane has none
		sent   int    // bytes of the bundle
	}{
		"the plane's bundle":                    {data, sum(data), 0},
		"the plane's bundle, without a digest":  {data, "", 0},
		"another file of the same size":         {damaged, sum(data), len(data)},
		"a file larger than the plane's bundle": {append(slices.Clone(data), 'x'), sum(data), len(data)},
	} {
		t.Run(name, func(t *testing.T) {
			sent := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/v1/bundle/"+version+"/linux/"+runtime.GOARCH:
					w.Header().Set("ETag", `"1"`)
					counter := &counter{ResponseWriter: w}
					http.ServeContent(counter, r, "", time.Unix(0, 0), bytes.NewReader(data))
					sent += counter.sent
				case strings.HasSuffix(r.URL.Path, ".sha256") && c.digest != "":
					_, _ = io.WriteString(w, c.digest)
				default:
					w.WriteHeader(http.StatusNotFound)
				}
			}))
			defer server.Close()
			dir := t.TempDir()
			part := filepath.Join(dir, "."+bundlefile.FileName(version, runtime.GOARCH)+".part")
			for path, text := range map[string][]byte{part: c.part, part + ".etag": []byte(`"1"`)} {
				if err := os.WriteFile(path, text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			plane := &Plane{URL: server.URL, HTTP: server.Client()}
			if err := Provide(t.Context(), dir, version, Source{Policy: FromPlane, Plane: plane}); err != nil {
				t.Fatal(err)
			}
			if m, err := Node(dir, version); err != nil || m == nil {
				t.Errorf("got %v, %v", m, err)
			}
			if sent != c.sent {
				t.Errorf("the plane sent %d bytes, want %d", sent, c.sent)
			}
		})
	}
}

// counter counts the bytes of a successful answer.
type counter struct {
	http.ResponseWriter
	failed bool
	sent   int
}

func (c *counter) WriteHeader(code int) {
	c.failed = code >= http.StatusBadRequest
	c.ResponseWriter.WriteHeader(code)
}

func (c *counter) Write(data []byte) (int, error) {
	if !c.failed {
		c.sent += len(data)
	}
	return c.ResponseWriter.Write(data)
}

// A partial download of another bundle is not used as the beginning of this one.
func TestADownloadOfAnotherBundleBeginsAnew(t *testing.T) {
	plane, _ := served(t, "v1.36.3", archived(t, "v1.36.3"), 0)
	dir := t.TempDir()
	part := filepath.Join(dir, "."+bundlefile.FileName("v1.36.3", runtime.GOARCH)+".part")
	for path, text := range map[string]string{part: "another", part + ".etag": `"0"`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Provide(t.Context(), dir, "v1.36.3", Source{Policy: FromPlane, Plane: plane}); err != nil {
		t.Error(err)
	}
}

func TestInstallNode(t *testing.T) {
	parent := t.TempDir()
	dir, bin, cni := filepath.Join(parent, "bundles"), filepath.Join(parent, "bin"), filepath.Join(parent, "cni")
	plane, _ := served(t, "v1.36.3", archived(t, "v1.36.3"), 0)
	if err := Provide(t.Context(), dir, "v1.36.3", Source{Policy: FromPlane, Plane: plane}); err != nil {
		t.Fatal(err)
	}
	m, err := Node(dir, "v1.36.3")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := InstallNode(dir, m, bin, cni); err != nil {
			t.Fatal(err)
		}
	}
	links, err := Links(dir, bin)
	more, err2 := Links(dir, cni)
	if err := errors.Join(err, err2); err != nil || len(links) != 2 || len(more) != 1 {
		t.Errorf("links %v %v, %v", links, more, err)
	}
	if err := errors.Join(Remove(dir, bin), Remove(dir, cni)); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{bin, cni} {
		if left, _ := os.ReadDir(d); len(left) > 0 {
			t.Errorf("links left: %v", left)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "v1.36.3/bin/kubelet"), []byte("evil"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Node(dir, "v1.36.3"); !strings.Contains(fault.Text(err, ""), "is damaged") {
		t.Errorf("a changed program: %v", err)
	}
}
