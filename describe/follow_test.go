package describe

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capstan-dev/capstan/runtime/record"
)

// TestFollow: each call is shown once, followed by what it blocks or unblocks, even after the journal has dropped old
// calls.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call := func(hook, handler string, answer record.Answer) record.Call {
			time.Sleep(time.Second)
			return record.Call{
				Time: time.Now(), Hook: "g/v1/" + hook, Extension: "ext", Handler: handler, Answer: answer,
				Message: "busy", Object: record.Object{Kind: "Cluster", Namespace: "team", Name: "blue"},
			}
		}
		created := call("BeforeClusterCreate", "capacity", record.Success)
		blocked := call("BeforeClusterUpgrade", "window", record.Blocked)
		again := call("BeforeClusterUpgrade", "window", record.Blocked)
		passed := call("BeforeClusterUpgrade", "window", record.Success)
		journal := [][]record.Call{{created, blocked}, {blocked}, {blocked, again}, {again, passed}, {again, passed}}
		ctx, cancel := context.WithCancel(t.Context())
		read := func() ([]record.Call, error) {
			calls := journal[0]
			if journal = journal[1:]; len(journal) == 0 {
				cancel()
			}
			return calls, nil
		}
		all := func(record.Call) bool { return true }
		var got []string
		err := Follow(ctx, read, all, func(e Entry) error {
			data, err := json.Marshal(e)
			switch {
			case e.Blocked != nil && strings.HasPrefix(string(data), `{"blocked":{`):
				got = append(got, "blocked by "+e.Blocked.Call.Handler)
			case e.GoesOn != nil && strings.HasPrefix(string(data), `{"goesOn":{`):
				got = append(got, "goes on after "+e.GoesOn.Ended.Time.Sub(e.GoesOn.Since).String())
			case e.Call != nil && strings.Contains(string(data), `"answer"`):
				got = append(got, e.Call.Handler+" "+string(e.Call.Answer))
			default:
				t.Errorf("%+v is %s", e, data)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		want := "capacity Success, window Blocked, blocked by window, window Blocked, window Success, goes on after 2s"
		if strings.Join(got, ", ") != want {
			t.Errorf("got %s\nwant %s", strings.Join(got, ", "), want)
		}
	})
}

func TestFollowStopsWhenNothingCanBeReadOrShown(t *testing.T) {
	broken := errors.New("broken")
	none := func(record.Call) bool { return false }
	for name, c := range map[string]struct {
		read func(call int) ([]record.Call, error)
		show error
	}{
		"the first read fails": {func(int) ([]record.Call, error) { return nil, broken }, nil},
		"a later read fails": {
			func(call int) ([]record.Call, error) { return nil, map[int]error{3: broken}[call] }, nil,
		},
		"a call can't be shown": {func(int) ([]record.Call, error) { return []record.Call{{}}, nil }, broken},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				looks := 0
				read := func() ([]record.Call, error) { looks++; return c.read(looks) }
				err := Follow(t.Context(), read, none, func(Entry) error { return c.show })
				if !errors.Is(err, broken) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}
