//go:build linux

package dock_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/image"
	"github.com/capstan-dev/capstan/image/build"
	"github.com/capstan-dev/capstan/image/client"
)

// askScript asks the image store from within a host.
const askScript = `python3 - %q %q %q <<'P'
import socket, sys
method, path, body = sys.argv[1:]
s = socket.socket(socket.AF_UNIX)
s.connect("/opt/capstan/images/images.sock")
s.sendall(("%%s /v1/%%s HTTP/1.1\r\nHost: images\r\nConnection: close\r\nContent-Length: %%d\r\n\r\n%%s"
    %% (method, path, len(body), body)).encode())
got = b""
while True:
    try:
        part = s.recv(65536)
    except ConnectionError:
        break
    if not part:
        break
    got += part
if not got:
    print(0) # a killed store answers nothing
    sys.exit()
head, _, rest = got.partition(b"\r\n\r\n")
print(head.split()[1].decode())
if b"chunked" in head:
    out = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        out += rest[:int(size, 16)]
        rest = rest[int(size, 16) + 2:]
    rest = out
print(rest.decode())
P`

// asked sends a request from a host to the image store and returns the answer; code is 0 if there is none.
func asked(t *testing.T, h dock.Host, method, path, body string) (code int, answer string) {
	t.Helper()
	out := must(t, h, fmt.Sprintf(askScript, method, path, body))
	first, rest, _ := strings.Cut(out, "\n")
	code, err := strconv.Atoi(first)
	if err != nil {
		t.Fatalf("the answer is %q", out)
	}
	return code, rest
}

// withImages returns a directory of binaries with an image store.
func withImages(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(bin, "capstan-dock"), filepath.Join(dir, "capstan-dock")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "capstan-images"),
		"github.com/capstan-dev/capstan/cmd/capstan-images")
	if built := os.Getenv("CAPSTAN_IMAGES"); built != "" { // so that a user without Go can run the tests
		cmd = exec.Command("cp", built, filepath.Join(dir, "capstan-images"))
	}
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

func startWithImages(t *testing.T, home, bin string) *dock.Client {
	t.Helper()
	c, err := dock.Start(short(t), dock.Options{Home: home, BinDir: bin, MinFree: 1, InotifyInstances: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Shutdown(short(t)); err != nil && !errors.Is(err, dock.ErrNotRunning) {
			t.Errorf("shutdown: %v\n%s", err, logOf(home))
		}
		c.Close()
		if left := nothingLeft(home); left != "" {
			t.Errorf("left after the end of the dock: %s", left)
		}
		if t.Failed() {
			t.Logf("dock.log:\n%s", logOf(home))
		}
	})
	return c
}

// images connects to the store that the dock runs.
func images(t *testing.T, home string) *client.Client {
	t.Helper()
	var c *client.Client
	eventually(t, "the image store answers", func() bool {
		var err error
		c, err = client.Connect(short(t), filepath.Join(home, "images"), "/nowhere")
		return err == nil
	})
	t.Cleanup(c.Close)
	return c
}

// loadTwoLayers loads the image web:1: the first layer has a file and a directory; the second removes the file and
// hides the content of the directory.
func loadTwoLayers(t *testing.T, c *client.Client) image.Image {
	t.Helper()
	dir := t.TempDir()
	for path, data := range map[string]string{"a": "1", "d/x": "2"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var first bytes.Buffer
	if err := build.Build(build.Options{Name: "web:1", Path: dir, Entrypoint: []string{"/a"}}, &first); err != nil {
		t.Fatal(err)
	}
	loaded, err := c.Load(short(t), second(t, &first), "", nil)
	if err != nil || len(loaded) != 1 || len(loaded[0].Layers) != 2 {
		t.Fatalf("loaded %+v, %v", loaded, err)
	}
	return loaded[0]
}

// second turns an OCI archive with one layer into a docker archive with a second one.
func second(t *testing.T, archive io.Reader) io.Reader {
	t.Helper()
	blobs := map[string][]byte{}
	var config map[string]any
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		blobs[h.Name] = data
		if bytes.Contains(data, []byte("diff_ids")) && json.Unmarshal(data, &config) != nil {
			t.Fatalf("%s is not the configuration", data)
		}
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, h := range []*tar.Header{
		{Name: ".wh.a", Typeflag: tar.TypeReg, Mode: 0o644},
		{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "d/.wh..wh..opq", Typeflag: tar.TypeReg, Mode: 0o644},
		{Name: "owned", Typeflag: tar.TypeReg, Mode: 0o640, Uid: 999, Gid: 998},
	} {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	ids := config["rootfs"].(map[string]any)["diff_ids"].([]any)
	first := "blobs/" + strings.Replace(ids[0].(string), ":", "/", 1)
	config["rootfs"].(map[string]any)["diff_ids"] = append(ids, digestOf(layer.Bytes()))
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	files := []struct {
		name string
		data []byte
	}{
		{"1.tar", blobs[first]}, {"2.tar", layer.Bytes()}, {"config.json", text},
		{"manifest.json", []byte(`[{"Config":"config.json","RepoTags":["web:1"],"Layers":["1.tar","2.tar"]}]`)},
	}
	var out bytes.Buffer
	w = tar.NewWriter(&out)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Typeflag: tar.TypeReg, Size: int64(len(f.data))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(f.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &out
}

// TestHostsSeeImagesAndChangeNothing checks that every host sees the layers in overlayfs' form, and can neither write
// there nor remove an image that another host uses.
func TestHostsSeeImagesAndChangeNothing(t *testing.T) {
	home := t.TempDir()
	c := startWithImages(t, home, withImages(t))
	web := loadTwoLayers(t, images(t, home))
	one, two := ensure(t, c, dock.HostSpec{Name: "host-1"}), ensure(t, c, dock.HostSpec{Name: "host-2"})

	question := `{"image":"web:1"}`
	code, text := asked(t, one, "POST", "status", question)
	var got image.Image
	err := json.Unmarshal([]byte(text), &got)
	if err != nil || code != 200 || len(got.Layers) != 2 || len(got.Config) == 0 {
		t.Fatalf("the answer is %d %s, %v", code, text, err)
	}
	lower := got.Layers[1] + ":" + got.Layers[0]
	overlay := "cd /opt/capstan/layers && mkdir -p /var/o/u /var/o/w /var/o/m && mount -t overlay -o userxattr,lowerdir=" +
		lower + ",upperdir=/var/o/u,workdir=/var/o/w overlay /var/o/m && cd / && "
	owner := map[string]string{image.AllIDs: "999:998", image.OneID: "0:0"}[got.IDs]
	for script, want := range map[string]string{
		"cat /opt/capstan/layers/" + got.Layers[0] + "/a":               "1",
		"stat -c %u:%g /opt/capstan/layers/" + got.Layers[0] + "/a":     "0:0",
		"stat -c %u:%g /opt/capstan/layers/" + got.Layers[1] + "/owned": owner,
		overlay + "ls -A /var/o/m | tr '\\n' ' '; ls -A /var/o/m/d":     "d owned",
	} {
		if out := strings.TrimSpace(must(t, one, script)); out != want {
			t.Errorf("%s: got %q, want %q", script, out, want)
		}
	}
	if out := must(t, one, "touch /var/o/m/new && rm /var/o/m/owned && ls /var/o/m | tr '\\n' ' '"); out != "d new " {
		t.Errorf("the overlay has %q", out)
	}

	must(t, one, "umount /var/o/m && rm -r /var/o") // the overlay's work directory denies its owner access

	layers := "/opt/capstan/layers"
	for name, script := range map[string]string{
		"a file among the layers":          "touch " + layers + "/x",
		"a file in a layer":                "touch " + layers + "/" + got.Layers[0] + "/x",
		"a change of a file in a layer":    "echo 2 > " + layers + "/" + got.Layers[0] + "/a",
		"the removal of a file in a layer": "rm -f " + layers + "/" + got.Layers[0] + "/a",
		"a remount":                        "mount -o remount,bind,rw " + layers,
		"a remount of the sockets":         "mount -o remount,bind,rw /opt/capstan/images",
		"an unmount":                       "umount -l " + layers,
		"a copy of the mount": "mkdir -p /tmp/c && mount --rbind " + layers + " /tmp/c &&" +
			" mount -o remount,bind,rw /tmp/c",
		"another namespace":         "unshare -m sh -c 'mount -o remount,bind,rw " + layers + "'",
		"a nested user namespace":   "unshare -Urm sh -c 'mount -o remount,bind,rw " + layers + "'",
		"a file next to the socket": "rm -f /opt/capstan/images/images.sock && false; touch /opt/capstan/images/x",
		"the sockets of the store":  "ls -A /opt/capstan/layers/.. | grep -q hosts.sock",
		"another host's name":       "echo x > /opt/capstan/images/id",
		"attributes that overlayfs uses": "python3 -c 'import os; os.setxattr(\"" + layers + "/" + got.Layers[0] +
			"\", \"user.overlay.opaque\", b\"y\")'",
	} {
		if out, code := in(t, one, script); code == 0 {
			t.Errorf("%s got through:\n%s", name, out)
		}
	}

	// When one host removes an image, the other keeps it.
	if code, text := asked(t, one, "POST", "remove", question); code != 200 {
		t.Fatalf("removing: %d %s", code, text)
	}
	if code, _ := asked(t, one, "POST", "status", question); code != 404 {
		t.Errorf("the host that removed the image still gets it: %d", code)
	}
	if code, text := asked(t, two, "POST", "status", question); code != 200 {
		t.Errorf("the other host gets %d %s", code, text)
	}
	if code, text := asked(t, one, "POST", "pull", question); code != 200 || !strings.Contains(text, web.Digest) {
		t.Errorf("pulling an image that the dock's user loaded: %d %s", code, text)
	}
	if code, text := asked(t, one, "POST", "status", `{"image":"`+strings.Repeat("x", 70_000)+`"}`); code != 400 {
		t.Errorf("a request that is too long: %d %s", code, text)
	}
	if code, text := asked(t, one, "POST", "pull", `{"image":"127.0.0.1:1/web:1"}`); code != 403 ||
		!strings.Contains(text, "hosts may not reach") {
		t.Errorf("pulling from a registry on the machine: %d %s", code, text)
	}
	if code, text := asked(t, one, "POST", "load", "x"); code != 404 {
		t.Errorf("a host's request to load an image: %d %s", code, text)
	}
}

// TestTheImageStoreComesBack checks that a killed store is restarted, without any action by hosts.
func TestTheImageStoreComesBack(t *testing.T) {
	home := t.TempDir()
	bin := withImages(t)
	c := startWithImages(t, home, bin)
	loadTwoLayers(t, images(t, home))
	h := ensure(t, c, dock.HostSpec{Name: "host-1"})
	pid := processOf(t, filepath.Join(bin, "capstan-images"))
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the image store answers again", func() bool {
		code, _ := asked(t, h, "GET", "images", "")
		return code == 200 && processOf(t, filepath.Join(bin, "capstan-images")) != pid
	})
	if code, text := asked(t, h, "POST", "status", `{"image":"web:1"}`); code != 200 {
		t.Errorf("after the restart of the store: %d %s", code, text)
	}
	if code, text := asked(t, h, "GET", "fs", ""); code != 200 || !strings.Contains(text, `"path":"/opt/capstan/layers"`) {
		t.Errorf("the usage of the store: %d %s", code, text)
	}
}

// processOf returns the process that runs a program, or 0.
func processOf(t *testing.T, program string) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, exe := range all {
		if target, err := os.Readlink(exe); err == nil && target == program {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(exe)))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	return 0
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
