package logfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAFullLogIsKeptOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "x.log")
	f, err := Open(path, 100)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		fmt.Fprintf(f, "line %03d\n", i) // 9 bytes: 11 lines fit in a file
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	now, _ := os.ReadFile(path)
	before, _ := os.ReadFile(path + ".1")
	if len(now) > 100 || len(before) > 100 {
		t.Errorf("the files have %d and %d bytes, more than the limit", len(now), len(before))
	}
	if all := string(before) + string(now); !strings.HasSuffix(all, "line 048\nline 049\n") ||
		strings.Count(all, "\n") < 11 {
		t.Errorf("the last lines are missing:\n%s", all)
	}
	entries, _ := os.ReadDir(filepath.Dir(path))
	if len(entries) != 2 {
		t.Errorf("there are %d files, want 2", len(entries))
	}
}

func TestReopeningAppends(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.log")
	for _, line := range []string{"one\n", "two\n"} {
		f, err := Open(path, 0)
		if err != nil {
			t.Fatal(err)
		}
		f.Write([]byte(line))
		f.Close()
	}
	if data, _ := os.ReadFile(path); string(data) != "one\ntwo\n" {
		t.Errorf("the log contains %q", data)
	}
}

func TestALogThatCannotBeRotatedStaysBounded(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.log")
	if err := os.MkdirAll(filepath.Join(path+".1", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 100 {
		if n, err := f.Write([]byte("123456789\n")); n != 10 || err != nil {
			t.Fatalf("Write returned %d, %v", n, err)
		}
	}
	if info, _ := os.Stat(path); info.Size() > 100 || info.Size() == 0 {
		t.Errorf("the log has %d bytes", info.Size())
	}
}

func TestPipeEndsWithItsWriters(t *testing.T) {
	var b strings.Builder
	in, done, err := Pipe(&b)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(in, strings.Repeat("x", 10000))
	in.Close()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("the copying does not end")
	}
	if b.Len() != 10000 {
		t.Errorf("%d bytes arrived, want 10000", b.Len())
	}
}
