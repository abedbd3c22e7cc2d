package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

func sample(n int) Call {
	return Call{
		Time: time.Date(2026, 11, 20, 21, 0, n, 123456000, time.UTC), Hook: "g/v/BeforeClusterCreate", Extension: "capstan",
		Handler: "capacity",
		Object:  Object{Kind: "Cluster", Namespace: "default", Name: fmt.Sprintf("c%d", n)}, Answer: Blocked,
		RetryAfter: 5 * time.Second,
		Message:    "no hosts", Duration: 1234 * time.Microsecond,
	}
}

func open(t *testing.T, path string, size int64) *Journal {
	t.Helper()
	j, err := Open(path, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func read(t *testing.T, path string) []Call {
	t.Helper()
	calls, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

func TestWhatIsAppendedIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hooks.jsonl")
	if calls := read(t, path); len(calls) != 0 {
		t.Errorf("a journal that does not exist holds %v", calls)
	}
	j := open(t, path, 0)
	failed := sample(2)
	failed.Answer, failed.Err = Failure, errors.New("no answer")
	want := []Call{sample(1), failed}
	for _, call := range want {
		if err := j.Append(call); err != nil {
			t.Fatal(err)
		}
	}
	got := read(t, path)
	if len(got) != 2 || !reflect.DeepEqual(got[0], want[0]) || got[1].Err == nil || got[1].Err.Error() != "no answer" {
		t.Errorf("got %+v", got)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v, %v", info.Mode(), err)
	}
}

func TestFieldNamesOfTheFile(t *testing.T) {
	call := sample(1)
	call.Err = errors.New("e")
	data, err := json.Marshal(call)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"time":"2026-11-20T21:00:01.123456Z","hook":"g/v/BeforeClusterCreate","extension":"capstan","handler":"capacity",` +
		`"object":{"kind":"Cluster","namespace":"default","name":"c1"},"answer":"Blocked","retryAfterSeconds":5,"message":"no hosts",` +
		`"durationSeconds":0.001234,"error":"e"}`
	if string(data) != want {
		t.Errorf("got\n%s\nwant\n%s", data, want)
	}
}

func TestSizeIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hooks.jsonl")
	const size = 2000
	j := open(t, path, size)
	for n := range 100 {
		if err := j.Append(sample(n)); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{path, path + OldSuffix} {
		if info, err := os.Stat(file); err != nil || info.Size() > size {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 2 {
		t.Errorf("files are %v, %v", entries, err)
	}
	calls := read(t, path)
	for i, call := range calls {
		if want := fmt.Sprintf("c%d", 100-len(calls)+i); call.Object.Name != want {
			t.Fatalf("call %d is about %s, want %s: the newest, in order", i, call.Object.Name, want)
		}
	}
	if len(calls) < 8 {
		t.Errorf("only %d calls are left", len(calls))
	}
}

// A crash leaves half a line; it must not lose any other line.
func TestTornLineIsSkipped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hooks.jsonl")
	line, err := json.Marshal(sample(1))
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(line) + 2 {
		whole := string(line) + "\n"
		if err := os.WriteFile(path, []byte(whole+(whole + " ")[:cut]), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := len(read(t, path)); got != 1 && cut <= len(line) {
			t.Errorf("cut at %d: read %d calls before the journal is opened again", cut, got)
		}
		j, err := Open(path, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(j.Append(sample(2)), j.Close()); err != nil {
			t.Fatal(err)
		}
		calls := read(t, path)
		if first, last := calls[0], calls[len(calls)-1]; first.Object.Name != "c1" || last.Object.Name != "c2" {
			t.Errorf("cut at %d: %+v", cut, calls)
		}
	}
}

func TestJunkIsSkipped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hooks.jsonl")
	line, err := json.Marshal(sample(1))
	if err != nil {
		t.Fatal(err)
	}
	text := "junk\n\n{}\n[]\n" + strings.Repeat("x", 3*maxLine) + "\n" + string(line) + "\n\x00\x00\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if calls := read(t, path); len(calls) != 1 || calls[0].Object.Name != "c1" {
		t.Errorf("got %+v", calls)
	}
}

func TestLongTextsAreCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hooks.jsonl")
	j := open(t, path, 0)
	call := sample(1)
	call.Message = strings.Repeat("\x01", 1<<20)
	call.Err = errors.New(strings.Repeat("ä", 1<<20))
	if err := j.Append(call); err != nil {
		t.Fatal(err)
	}
	calls := read(t, path)
	if len(calls) != 1 || len(calls[0].Message) > maxText+3 || !strings.HasSuffix(calls[0].Err.Error(), "ä…") {
		t.Errorf("read %d calls", len(calls))
	}
}

func TestManyWritersAndAReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hooks.jsonl")
	j := open(t, path, 1<<20)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for n := range 100 {
				if err := j.Append(sample(n)); err != nil {
					t.Error(err)
				}
				if n%10 != 0 {
					continue
				}
				if _, err := Read(path); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if got := len(read(t, path)); got != 400 {
		t.Errorf("%d calls were read, 400 were written", got)
	}
}

func TestOpenFails(t *testing.T) {
	if _, err := Open(t.TempDir(), 0); err == nil {
		t.Error("a directory was opened")
	}
	if _, err := Open(filepath.Join(t.TempDir(), "a", "b"), 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a directory that does not exist: %v", err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "a"), -1); err == nil {
		t.Error("a negative size was accepted")
	}
	j := open(t, filepath.Join(t.TempDir(), "a"), 0)
	if err := errors.Join(j.Close(), j.Close()); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	if err := j.Append(sample(1)); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("appending after the end: %v", err)
	}
}

// A rotation that failed between its two steps must not stop the journal for good.
func TestRotationIsTriedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hooks.jsonl")
	j := open(t, path, 300)
	if err := j.Append(sample(1)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+OldSuffix); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(sample(2)); err != nil {
		t.Fatal(err)
	}
	if calls := read(t, path); len(calls) != 2 {
		t.Errorf("got %+v", calls)
	}
}

// A full disk is an error only for that call, and once there is room the journal continues with complete lines.
func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no /dev/full")
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "hooks.jsonl")
	j := open(t, path, 0)
	file := j.file
	j.file = full
	if err := j.Append(sample(1)); err == nil {
		t.Error("writing to a full disk succeeded")
	}
	j.file = file
	_ = full.Close()
	if err := j.Append(sample(2)); err != nil {
		t.Fatal(err)
	}
	if calls := read(t, path); len(calls) != 1 || calls[0].Object.Name != "c2" {
		t.Errorf("got %+v", calls)
	}
}

// Reading accepts any file.
func FuzzRead(f *testing.F) {
	line, err := json.Marshal(sample(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(line, '\n'))
	f.Add([]byte("{\"hook\":1}\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "hooks.jsonl")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		before := len(read(t, path))
		j := open(t, path, 1<<30)
		if err := j.Append(sample(1)); err != nil {
			t.Fatal(err)
		}
		// Opening terminates an unterminated last line, which may be complete.
		if after := len(read(t, path)); after != before+1 && after != before+2 {
			t.Fatalf("%d calls before, %d after one was appended", before, after)
		}
	})
}
