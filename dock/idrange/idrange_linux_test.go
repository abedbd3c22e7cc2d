package idrange

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestRangesOfAccountsAreLeftAlone(t *testing.T) {
	at := func(slot, offset int) string { return strconv.Itoa(first + slot*Size + offset) }
	for name, c := range map[string]struct {
		file, text string
		want       []int // slots
	}{
		"a subordinate range":                    {"subuid", "user:" + at(1, 0) + ":65536", []int{1}},
		"a subordinate range across two of ours": {"subgid", "user:" + at(1, 7) + ":65536", []int{1, 2}},
		"a range that begins before ours":        {"subuid", "user:100000:" + at(0, 5), []int{0, 1}},
		"a range that ends after ours":           {"subuid", "user:" + at(4095, 1) + ":1000000", []int{4095}},
		"a user":                                 {"passwd", "u:x:" + at(3, 9) + ":100::/:/bin/sh", []int{3}},
		"the group of a user":                    {"passwd", "u:x:1:" + at(3, 9) + "::/:/bin/sh", []int{3}},
		"a group":                                {"group", "g:x:" + at(2, 65535) + ":u", []int{2}},
		"ordinary accounts":                      {"passwd", "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh", nil},
		"ordinary subordinate ids":               {"subuid", "user:100000:65536\nother:165536:65536", nil},
		"no ids":                                 {"subuid", "user:" + at(1, 0) + ":0", nil},
		"invalid lines":                          {"subuid", "\n# x\nuser\nuser:a:b\nuser:-5:7\nuser:99999999999999:1", nil},
		"a range of all ids from 0":              {"subuid", "user:0:4294967295", []int{0, 1, 4095}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), c.file)
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			taken, err := takenSlots([]string{path, filepath.Join(t.TempDir(), "missing")})
			if err != nil {
				t.Fatal(err)
			}
			for _, slot := range c.want {
				if !taken[first+slot*Size] {
					t.Errorf("slot %d is free", slot)
				}
			}
			if len(taken) != len(c.want) && len(taken) != (limit-first)/Size {
				t.Errorf("%d slots are taken, want %v", len(taken), c.want)
			}
		})
	}
}

func TestReservationsAreDisjoint(t *testing.T) {
	dir := t.TempDir()
	passwd := filepath.Join(t.TempDir(), "passwd")
	if err := os.WriteFile(passwd, []byte("u:x:"+strconv.Itoa(first)+":0::/:/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	seen := map[int]*Range{}
	for range 50 { // two docks reserve in turn
		for range 2 {
			r, err := Pool{Dir: dir, Accounts: []string{passwd}}.Reserve()
			if err != nil {
				t.Fatal(err)
			}
			if seen[r.First] != nil || r.First == first || r.First < first || r.First+Size > limit || r.First%Size != 0 {
				t.Fatalf("got a range from %#x", r.First)
			}
			seen[r.First] = r
		}
	}
	lowest := seen[first+Size]
	lowest.Release()
	lowest.Release()
	again, err := Pool{Dir: dir, Accounts: []string{passwd}}.Reserve()
	if err != nil || again.First != first+Size {
		t.Errorf("a released range was not reserved again: %v, %v", again, err)
	}
	again.Release()
	for _, r := range seen {
		r.Release()
	}
}

func TestNoneIsLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subuid")
	if err := os.WriteFile(path, []byte("all:0:4294967295\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (Pool{Dir: t.TempDir(), Accounts: []string{path}}).Reserve(); !errors.Is(err, ErrNoneLeft) {
		t.Errorf("got %v", err)
	}
}

func TestALinkInPlaceOfAReservationIsRefused(t *testing.T) {
	dir, target := t.TempDir(), filepath.Join(t.TempDir(), "x")
	if err := os.Symlink(target, filepath.Join(dir, strconv.Itoa(first))); err != nil {
		t.Fatal(err)
	}
	_, err := Pool{Dir: dir, Accounts: []string{}}.Reserve()
	if err == nil || !strings.Contains(err.Error(), "too many levels") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(target); err == nil {
		t.Error("the link was followed")
	}
}

func TestIn(t *testing.T) {
	for name, c := range map[string]struct {
		mapping string
		want    bool
	}{
		"the machine's own namespace":   {"         0          0 4294967295\n", true},
		"an ordinary user's namespace":  {"         0       1000          1\n", false},
		"a container with 65,536 ids":   {"         0     100000      65536\n", false},
		"the ids in two lines":          {"0 0 1000\n1000 1000 4294966295\n", true},
		"ids that end too early":        {"0 0 2000000000\n", false},
		"a namespace without a mapping": {"", false},
		"not a mapping":                 {"x y z\n1 2\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := In(c.mapping); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
