//go:build linux

package service_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/image"
	"github.com/capstan-dev/capstan/image/build"
	"github.com/capstan-dev/capstan/image/client"
	"github.com/capstan-dev/capstan/image/service"
	"github.com/capstan-dev/capstan/image/socket"
	"github.com/capstan-dev/capstan/image/store"
)

// registry is a puller that blocks until its caller gives up.
type registry struct{ began chan string }

func (r *registry) Pull(ctx context.Context, name string, _ service.Asker, _ func(string)) (string, error) {
	r.began <- name
	<-ctx.Done()
	return "", ctx.Err()
}

// serve serves a store in a directory.
func serve(t *testing.T, p service.Puller) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "images")
	s, err := store.Open(store.Options{Dir: dir, MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	server := &service.Server{Store: s, Puller: p, Log: log.New(io.Discard, "", 0)}
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	for name, f := range map[string]func(context.Context, net.Listener) error{
		socket.Owner: server.ServeOwner, socket.Hosts: server.ServeHosts,
	} {
		l, err := socket.Listen(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		served.Go(func() {
			if err := f(ctx, l); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		served.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// host returns a client that makes requests like the dock on behalf of a host; preamble is the first line of each
// connection.
func host(t *testing.T, dir, preamble string) *http.Client {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := socket.Dial(ctx, dir, socket.Hosts)
			if err == nil {
				_, err = io.WriteString(conn, preamble)
			}
			return conn, err
		}}}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// ask returns the status and the answer. Without an answer, the status is 0.
func ask(t *testing.T, ctx context.Context, c *http.Client, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://images/v1/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(data)
}

const one = "host-1 AAAAAAAAAAAA\n"

func TestHostsMustBeIntroduced(t *testing.T) {
	dir := serve(t, nil)
	for name, preamble := range map[string]string{
		"no first line": "", "no id": "host-1\n", "a short id": "host-1 x\n", "a path": "../host AAAAAAAAAAAA\n",
		"a path as id": "host-1 ../../AAAAAA\n", "a line without an end": strings.Repeat("x", 5000),
	} {
		if code, text := ask(t, t.Context(), host(t, dir, preamble), "GET", "images", ""); code == 200 {
			t.Errorf("%s: answered %s", name, text)
		}
	}
	if code, text := ask(t, t.Context(), host(t, dir, one), "GET", "images", ""); code != 200 || text != "[]\n" {
		t.Errorf("a host with a valid first line gets %d %s", code, text)
	}
}

func TestWhatHostsMayNotAsk(t *testing.T) {
	c := host(t, serve(t, nil), one)
	for name, q := range map[string]struct {
		method, path, body string
		code               int
	}{
		"loading":                    {"POST", "load", "", 404},
		"saving":                     {"GET", "save?ref=web:1", "", 404},
		"removing names":             {"DELETE", "images?ref=web:1", "", 405},
		"invalid JSON":               {"POST", "status", "{", 400},
		"an invalid name":            {"POST", "status", `{"image":"A:B:C"}`, 400},
		"a missing image":            {"POST", "status", `{"image":"web:1"}`, 404},
		"a request that is too long": {"POST", "pull", `{"image":"` + strings.Repeat("x", 1<<17) + `"}`, 400},
		"removing a missing image":   {"POST", "remove", `{"image":"web:1"}`, 200},
	} {
		if code, text := ask(t, t.Context(), c, q.method, q.path, q.body); code != q.code {
			t.Errorf("%s: %d %s, want %d", name, code, text, q.code)
		}
	}
}

// A host that pulls endlessly does not block others, and a call ends when its host abandons it.
func TestPullsOfAHostAreBounded(t *testing.T) {
	r := &registry{began: make(chan string)}
	dir := serve(t, r)
	c := host(t, dir, one)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	codes := make(chan int, 4)
	for range 4 {
		go func() {
			code, _ := ask(t, ctx, c, "POST", "pull", `{"image":"registry.example.com/x:1"}`)
			codes <- code
		}()
		<-r.began
	}
	code, text := ask(t, t.Context(), c, "POST", "pull", `{"image":"registry.example.com/x:1"}`)
	if code != 429 || !strings.Contains(text, "4 pulls under way") {
		t.Errorf("a fifth pull: %d %s", code, text)
	}
	other := make(chan struct{})
	go func() {
		defer close(other)
		ask(t, ctx, host(t, dir, "host-2 BBBBBBBBBBBB\n"), "POST", "pull", `{"image":"x.example.com/y:1"}`)
	}()
	if got := <-r.began; got != "x.example.com/y:1" {
		t.Errorf("another host's pull is %s", got)
	}
	cancel()
	for range 4 {
		<-codes
	}
	<-other
	// An abandoned call no longer counts as soon as the store notices that its caller is gone.
	for deadline := time.Now().Add(10 * time.Second); ; {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan int, 1)
		go func() {
			code, _ := ask(t, ctx, c, "POST", "pull", `{"image":"registry.example.com/x:1"}`)
			done <- code
		}()
		select {
		case <-r.began:
			cancel()
			<-done
			return
		case code := <-done:
			cancel()
			if code != 429 || time.Now().After(deadline) {
				t.Fatalf("after all calls have ended, a pull gets %d", code)
			}
		}
	}
}

func TestTheOwnerLoadsAndHears(t *testing.T) {
	dir := serve(t, nil)
	c, err := client.Connect(t.Context(), dir, "/nowhere")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "run"), []byte("#!"), 0o755); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := build.Build(build.Options{Name: "web:1", Path: root, Entrypoint: []string{"/run"}}, &archive); err != nil {
		t.Fatal(err)
	}
	var said []string
	whole := archive.Bytes()
	all, err := c.Load(t.Context(), bytes.NewReader(whole), "", func(s string) { said = append(said, s) })
	if err != nil || len(all) != 1 || !strings.Contains(strings.Join(said, "\n"), "unpacking layer 1 of 1") {
		t.Fatalf("%+v, %v, heard %q", all, err, said)
	}
	for name, c2 := range map[string]struct {
		data []byte
		code image.Code
	}{
		"half an archive": {whole[:len(whole)/2], image.CodeInvalid}, "text": {[]byte("text"), image.CodeInvalid},
		"much text": {bytes.Repeat([]byte("text"), 4<<20), image.CodeInvalid},
	} {
		var typed *image.Error
		_, err := c.Load(t.Context(), bytes.NewReader(c2.data), "", nil)
		if !errors.As(err, &typed) || typed.Code != c2.code {
			t.Errorf("%s: error %v", name, err)
		}
	}
	var back bytes.Buffer
	if err := c.Save(t.Context(), &back, []string{"web:1"}); err != nil {
		t.Fatal(err)
	}
	if again, err := c.Load(t.Context(), &back, "other:1", nil); err != nil || again[0].Digest != all[0].Digest {
		t.Errorf("%+v, %v", again, err)
	}
	var typed *image.Error
	err = c.Save(t.Context(), &back, []string{"nosuch:1"})
	if !errors.As(err, &typed) || typed.Code != image.CodeNotFound {
		t.Errorf("error %v", err)
	}
	code, text := ask(t, t.Context(), host(t, dir, one), "POST", "status", `{"image":"web:1"}`)
	var img image.Image
	if err := json.Unmarshal([]byte(text), &img); err != nil || code != 200 || img.Digest != all[0].Digest {
		t.Errorf("a host's question about the image: %d %s", code, text)
	}
	if err := errors.Join(c.Remove(t.Context(), "web:1"), c.Remove(t.Context(), "other:1")); err != nil {
		t.Fatal(err)
	}
	left, err := c.List(t.Context())
	if err != nil || len(left) != 1 || left[0].Hosts != 1 || len(left[0].Names) != 0 {
		t.Errorf("the list is %+v, %v; want the image that a host holds, without names", left, err)
	}
}
