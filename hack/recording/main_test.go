package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
)

// events reads a recording back: its output, and the time of the last event.
func events(t *testing.T, data []byte) (header map[string]any, shown string, end float64) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(&header); err != nil {
		t.Fatal(err)
	}
	for {
		var event []any
		if err := decoder.Decode(&event); err == io.EOF {
			return header, shown, end
		} else if err != nil || len(event) != 3 || event[1] != "o" {
			t.Fatalf("event %v: %v", event, err)
		}
		at := event[0].(float64)
		if at < end {
			t.Errorf("an event at %v comes after one at %v", at, end)
		}
		shown, end = shown+event[2].(string), at
	}
}

// TestRecord: a command runs in a terminal, and the recording shows what it printed there.
func TestRecord(t *testing.T) {
	var shown bytes.Buffer
	o := options{title: "x", columns: 90, rows: 20, idle: time.Second}
	data, err := record(o, &shown, []string{"sh", "-c", "test -t 1 && stty size && echo über"})
	if err != nil {
		t.Fatal(err)
	}
	header, text, _ := events(t, data)
	if text != "20 90\r\nüber\r\n" || text != shown.String() {
		t.Errorf("the recording shows %q, and the terminal showed %q", text, shown.String())
	}
	if header["version"] != 2.0 || header["width"] != 90.0 || header["height"] != 20.0 || header["title"] != "x" {
		t.Errorf("the header is %v", header)
	}
}

func TestRecordFails(t *testing.T) {
	for name, argv := range map[string][]string{
		"a command that fails":          {"sh", "-c", "exit 3"},
		"a command that does not exist": {"/nonexistent/command"},
	} {
		if _, err := record(options{columns: 80, rows: 24}, io.Discard, argv); err == nil {
			t.Errorf("%s: record returned no error", name)
		}
	}
}

func TestCast(t *testing.T) {
	at := time.Unix(1000, 0)
	c := newCast(options{columns: 80, rows: 24, idle: 2 * time.Second, hidden: "/home/ann/capstan"}, at)
	for _, e := range []struct {
		after time.Duration
		text  string
	}{
		{time.Second, "in /home/ann/capstan/bin: \xe2\x94"}, // A character in two parts.
		{2 * time.Second, "\x80\r\n"},
		{time.Minute, "after a pause"},
		{61 * time.Second, " \xe2"}, // Never completed.
	} {
		if err := c.add(at.Add(e.after), []byte(e.text)); err != nil {
			t.Fatal(err)
		}
	}
	_, text, end := events(t, c.finish())
	if want := "in ~/bin: \u2500\r\nafter a pause \ufffd"; text != want {
		t.Errorf("the recording shows %q, want %q", text, want)
	}
	if end != 5 { // 1 s, 1 s, 2 s of the shortened pause, 1 s
		t.Errorf("the recording ends at %v s, want 5", end)
	}
	if err := c.add(at, []byte(strings.Repeat("x", maxBytes))); err == nil {
		t.Error("a recording that is too large was accepted")
	}
}
