//go:build linux

package handoff

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

func pair(t *testing.T) *Client {
	t.Helper()
	outer, inner, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- Serve(outer) }()
	c, err := Open(inner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		outer.Close()
	})
	return c
}

func TestAListenerArrivesAndWorks(t *testing.T) {
	c := pair(t)
	l, err := c.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	if port < firstPort || port > lastPort() {
		t.Errorf("port %d is not between %d and %d", port, firstPort, lastPort())
	}
	go func() {
		conn, err := l.Accept()
		if err == nil {
			fmt.Fprint(conn, "hello")
			conn.Close()
		}
	}()
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if data, err := io.ReadAll(conn); err != nil || string(data) != "hello" {
		t.Errorf("got %q, %v", data, err)
	}
}

func TestAPortCanBeHadAgainAfterItWasClosed(t *testing.T) {
	c := pair(t)
	l, err := c.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	again, err := c.Listen(port)
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Addr().(*net.TCPAddr).Port; got != port {
		t.Errorf("got port %d, want %d", got, port)
	}
	again.Close()
}

func TestATakenPortNamesTheProcessThatHasIt(t *testing.T) {
	other, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	port := other.Addr().(*net.TCPAddr).Port
	_, err = pair(t).Listen(port)
	var taken *TakenError
	if !errors.As(err, &taken) || taken.Port != port {
		t.Fatalf("error is %v", err)
	}
	for _, want := range []string{fmt.Sprint(port), fmt.Sprintf("process %d (handoff.test)", os.Getpid())} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error %q does not name %q", err, want)
		}
	}
}

func TestManyAtOnceGetTheirOwn(t *testing.T) {
	c := pair(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	ports := map[int]bool{}
	for range 20 {
		all.Go(func() {
			l, err := c.Listen(0)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ports[l.Addr().(*net.TCPAddr).Port] = true
			t.Cleanup(func() { l.Close() })
		})
	}
	all.Wait()
	if len(ports) != 20 {
		t.Errorf("got %d different ports", len(ports))
	}
}

func TestAnAnswerThatComesTooLateIsDropped(t *testing.T) {
	outer, inner, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Open(inner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		outer.Close()
		c.Close()
	})
	c.wait = 20 * time.Millisecond
	for range 3 {
		if _, err := c.Listen(0); err == nil || !strings.Contains(err.Error(), "no answer") {
			t.Fatalf("without a server: %v", err)
		}
	}
	before := openFiles(t)
	served := make(chan error, 1)
	go func() { served <- Serve(outer) }() // first answers the three requests from above
	c.wait = 10 * time.Second
	other, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	port := other.Addr().(*net.TCPAddr).Port
	var taken *TakenError
	if _, err := c.Listen(port); !errors.As(err, &taken) || taken.Port != port {
		t.Errorf("the answer belongs to another request: %v", err)
	}
	l, err := c.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	other.Close()
	// Serve closes its own files after it has answered.
	for limit := time.Now().Add(10 * time.Second); openFiles(t) > before; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%d files are open, but %d were open before", openFiles(t), before)
		}
	}
	select {
	case <-c.Gone():
		t.Error("Gone is closed although the outer process still runs")
	default:
	}
	outer.Close()
	select {
	case <-c.Gone():
	case <-time.After(10 * time.Second):
		t.Error("Gone is not closed after the end of the outer process")
	}
	<-served
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestTheEndOfTheOuterProcessIsSeen(t *testing.T) {
	outer, inner, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Open(inner)
	if err != nil {
		t.Fatal(err)
	}
	outer.Close()
	select {
	case <-c.Gone():
	case <-time.After(10 * time.Second):
		t.Fatal("Gone is not closed within 10 s")
	}
	if _, err := c.Listen(0); err == nil {
		t.Error("Listen succeeded after the end of the outer process")
	}
	c.Close()
}
