package post

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/capstan-dev/capstan/runtime/internal/testtls"
	"github.com/capstan-dev/capstan/runtime/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newClient(t *testing.T, ca *testtls.Authority, address string, change func(*Options)) *Client {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.PEM)
	options := Options{
		Address: address, Host: address, TLS: &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}, Idle: 4, Open: 8,
		IdleTimeout: time.Minute,
	}
	if change != nil {
		change(&options)
	}
	c := New(options)
	t.Cleanup(c.Retire)
	return c
}

// serve starts a server with net/http, and returns a client for it.
func serve(t *testing.T, handler http.HandlerFunc, change func(*Options)) (*Client, *httptest.Server) {
	t.Helper()
	ca := testtls.NewAuthority(t)
	s := ca.Serve(t, handler, nil)
	return newClient(t, ca, s.Listener.Addr().String(), change), s
}

// script starts a server that reads requests and answers each with the next of these raw answers. After the last one
// it closes the connection.
func script(t *testing.T, answers ...string) *Client {
	t.Helper()
	ca := testtls.NewAuthority(t)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{ca.Certificate(t, nil)}})
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			done.Go(func() {
				defer conn.Close()
				reader := bufio.NewReader(conn)
				for _, answer := range answers {
					request, err := http.ReadRequest(reader)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, request.Body)
					if _, err := io.WriteString(conn, answer); err != nil {
						return
					}
				}
			})
		}
	})
	c := newClient(t, ca, listener.Addr().String(), nil)
	t.Cleanup(func() {
		c.Retire()
		_ = listener.Close()
		done.Wait()
	})
	return c
}

func do(t *testing.T, c *Client, body string) (Answer, error) {
	t.Helper()
	return c.Do(t.Context(), &Call{}, time.Now().Add(20*time.Second),
		Request{Target: "/x?timeout=1s", Body: []byte(body), Limit: 1 << 20})
}

func TestDo(t *testing.T) {
	var connections sync.Map
	c, s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		connections.Store(r.RemoteAddr, true)
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s %s %q", r.Method, r.URL, r.Header.Get("Content-Type"), r.Header.Get("Accept"),
			r.Header.Get("Extra"), body)
	}, nil)
	for i, body := range []string{"", "hello", strings.Repeat("x", 300<<10)} {
		answer, err := c.Do(t.Context(), &Call{}, time.Now().Add(20*time.Second), Request{
			Prefix: "/pre", Target: "/x?timeout=1s", Body: []byte(body), Limit: 1 << 20,
			Header: map[string]string{"Extra": "more", "Bad": "a\r\nInjected: yes", "Bad Name": "x"},
		})
		want := fmt.Sprintf("POST /pre/x?timeout=1s application/json application/json more %q", body)
		if err != nil || answer.Status != 200 || string(answer.Body) != want {
			t.Fatalf("request %d: %d %.200q, %v", i, answer.Status, answer.Body, err)
		}
	}
	count := 0
	connections.Range(func(any, any) bool { count++; return true })
	if count != 1 {
		t.Errorf("%d connections for requests one after the other", count)
	}
	s.CloseClientConnections()
	call := &Call{}
	if _, err := c.Do(t.Context(), call, time.Now().Add(20*time.Second),
		Request{Target: "/", Limit: 1 << 20}); err != nil || !call.Resent() {
		t.Errorf("after the server has closed the connection: resent %t, %v", call.Resent(), err)
	}
}

func TestAnswers(t *testing.T) {
	ok := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	for name, c := range map[string]struct {
		answer string
		want   string // status and body, or the error after "error: "
	}{
		"plain": {ok, "200 ok"},
		"a body in chunks": {
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n", "200 ok",
		},
		"a body that ends with the connection": {"HTTP/1.1 200 OK\r\n\r\nok", "200 ok"},
		"an answer of HTTP/1.0":                {"HTTP/1.0 200 OK\r\n\r\nok", "200 ok"},
		"an answer after an interim one":       {"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok, "200 ok"},
		"interim answers without end": {strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 10),
			"error: endless interim answers"},
		"a failure":                     {"HTTP/1.1 500 No\r\nContent-Length: 4\r\n\r\ndisk", "500 disk"},
		"a failure with half of a body": {"HTTP/1.1 500 No\r\nContent-Length: 400\r\n\r\ndisk", "500 disk"},
		"half of a body":                {"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\nok", "error: unexpected EOF"},
		"half of a chunk": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nok",
			"error: unexpected EOF"},
		"an answer that is not HTTP": {"hello\r\n\r\n", "error: malformed HTTP"},
		"no answer":                  {"", "error: EOF"},
		"an invalid length":          {"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", "error: bad Content-Length"},
		"two lengths": {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok",
			"error: Content-Length"},
		"headers without end": {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHead) + "\r\n\r\n",
			"error: the headers of the answer have more than"},
		"a body that is too large": {"HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n", "error: body too large"},
		"switching protocols": {
			"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "101 ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			answer, err := do(t, script(t, c.answer), "body")
			if want, isError := strings.CutPrefix(c.want, "error: "); isError {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %+v, error %v, want one with %q", answer, err, want)
				}
				return
			}
			if got := fmt.Sprintf("%d %s", answer.Status, answer.Body); err != nil || got != c.want {
				t.Errorf("got %s, %v, want %s", got, err, c.want)
			}
		})
	}
}

// Bytes after an answer would be taken for the answer to the next request.
func TestAConnectionWithMoreThanTheAnswerIsNotKept(t *testing.T) {
	c := script(t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
		"never")
	for range 2 {
		if answer, err := do(t, c, "body"); err != nil || string(answer.Body) != "ok" {
			t.Fatalf("got %q, %v", answer.Body, err)
		}
	}
	if len(c.idle) != 0 {
		t.Error("the connection is kept")
	}
}

func TestAServerThatRefusesBeforeItHasReadAll(t *testing.T) {
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
	}, nil)
	answer, err := do(t, c, strings.Repeat("x", 19<<20))
	// Whether the answer or the reset arrives first depends on the network, but the exchange must not hang.
	if err == nil && answer.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("got %+v", answer)
	}
}

func TestDeadline(t *testing.T) {
	release := make(chan struct{})
	c, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}, nil)
	defer close(release)
	start := time.Now()
	_, err := c.Do(t.Context(), &Call{}, start.Add(100*time.Millisecond), Request{Target: "/", Limit: 10})
	if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) < 100*time.Millisecond {
		t.Errorf("after %s: %v", time.Since(start), err)
	}
	if len(c.open) != 0 || len(c.idle) != 0 {
		t.Errorf("%d open, %d idle", len(c.open), len(c.idle))
	}
}

// An exchange can be ended at any moment, and leaves nothing behind.
func TestEnd(t *testing.T) {
	entered := make(chan struct{}, 100)
	c, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		entered <- struct{}{}
		<-r.Context().Done()
	}, nil)
	exchange := func(call *Call) error {
		_, err := c.Do(t.Context(), call, time.Now().Add(20*time.Second), Request{Target: "/", Limit: 10})
		return err
	}
	before := &Call{}
	before.End()
	if err := exchange(before); !errors.Is(err, ErrEnded) {
		t.Errorf("ended before the exchange: %v", err)
	}
	for range 3 {
		during := &Call{}
		go func() {
			<-entered
			during.End()
			during.End() // calling it twice does no harm
		}()
		if err := exchange(during); !errors.Is(err, ErrEnded) {
			t.Errorf("ended during the exchange: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Do(ctx, &Call{}, time.Now().Add(20*time.Second), Request{Target: "/", Limit: 10}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("with a context that is over: %v", err)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	var now, most atomic.Int32
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		for {
			m := most.Load()
			if n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		_, _ = io.Copy(io.Discard, r.Body)
		now.Add(-1)
	}, nil)
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() {
			if _, err := do(t, c, "x"); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if most.Load() > 8 || len(c.idle) > 4 {
		t.Errorf("%d exchanges at the same time, %d connections are kept", most.Load(), len(c.idle))
	}
	c.CloseIdle()
	if len(c.idle) != 0 || c.sweeper != nil {
		t.Errorf("%d connections are kept after CloseIdle", len(c.idle))
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	c, _ := serve(t, func(http.ResponseWriter, *http.Request) {},
		func(o *Options) { o.IdleTimeout = 50 * time.Millisecond })
	if _, err := do(t, c, "x"); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		c.mu.Lock()
		kept := len(c.idle)
		c.mu.Unlock()
		if kept == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the idle connection is kept for ever")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestARetiredClientKeepsNothing(t *testing.T) {
	c, _ := serve(t, func(http.ResponseWriter, *http.Request) {}, nil)
	c.Retire()
	if _, err := do(t, c, "x"); err != nil || len(c.idle) != 0 {
		t.Errorf("%v, %d connections are kept", err, len(c.idle))
	}
}

// loop is a connection that replays given bytes.
type loop struct {
	net.Conn
	said *bytes.Reader
}

func (l loop) Read(p []byte) (int, error)  { return l.said.Read(p) }
func (l loop) Write(p []byte) (int, error) { return len(p), nil }
func (l loop) Close() error                { return nil }
func (l loop) SetDeadline(time.Time) error { return nil }

// Whatever a server sends, the answer is bounded, and a returned body is complete.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n0\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\n\r\nno"))
	f.Add([]byte("HTTP/1.0 200\r\n\r\n"))
	f.Fuzz(func(t *testing.T, said []byte) {
		l := loop{said: bytes.NewReader(said)}
		conn := newConnection(l, l, "host")
		answer, reusable, err := conn.exchange(Request{Target: "/", Limit: 64})
		switch {
		case err != nil:
		case answer.Status == http.StatusOK && len(answer.Body) > 64:
			t.Errorf("the body has %d bytes", len(answer.Body))
		case answer.Status != http.StatusOK && (reusable || len(answer.Body) > MaxQuoted+1):
			t.Errorf("status %d, %d bytes, reusable %t", answer.Status, len(answer.Body), reusable)
		case answer.Status < 100 || answer.Status > 999:
			t.Errorf("status %d", answer.Status)
		}
		if errors.Is(err, wire.ErrTooLarge) && len(said) <= 64 &&
			!bytes.Contains(bytes.ToLower(said), []byte("content-length")) {
			t.Errorf("the short answer %q counts as too large", said)
		}
	})
}
