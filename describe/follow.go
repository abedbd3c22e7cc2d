package describe

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/capstan-dev/capstan/internal/text"
	"github.com/capstan-dev/capstan/runtime/record"
)

// followPause is the time between two reads of the journal.
const followPause = 500 * time.Millisecond

// Entry is one item of a followed timeline. Exactly one field is set: a call, a block that began, or a block that
// ended.
type Entry struct {
	Call    *record.Call
	Blocked *Blocked
	GoesOn  *GoesOn
}

// GoesOn is a block that has ended.
type GoesOn struct {
	record.Block

	// Ended is the call that ended it.
	Ended record.Call `json:"endedBy"`
}

// Follow calls the function read again and again. It shows the calls that the first read returns and what they block,
// then each new call and each block as it begins and ends. It returns nil when ctx is done. A block that began before
// the first read is shown only if the function counts returns true for its call.
func Follow(
	ctx context.Context, read func() ([]record.Call, error), counts func(record.Call) bool, show func(Entry) error,
) error {
	calls, err := read()
	if err != nil {
		return err
	}
	tracker := record.NewTracker(calls)
	seen := make(map[string]bool, len(calls))
	for _, c := range calls {
		seen[callKey(c)] = true
		if err := show(Entry{Call: &c}); err != nil {
			return err
		}
	}
	for _, b := range blockedNow(calls, counts) {
		if err := show(Entry{Blocked: &b}); err != nil {
			return err
		}
	}
	err = wait.PollUntilContextCancel(ctx, followPause, false, func(context.Context) (bool, error) {
		calls, err := read()
		if err != nil {
			return false, err
		}
		now := make(map[string]bool, len(calls)) // entries that the journal drops are dropped here, too
		for _, c := range calls {
			key := callKey(c)
			if now[key] = true; seen[key] {
				continue
			}
			if err := showCall(c, tracker, show); err != nil {
				return false, err
			}
		}
		seen = now
		return false, nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// showCall shows a call and what it blocks or unblocks.
func showCall(c record.Call, tracker *record.Tracker, show func(Entry) error) error {
	if err := show(Entry{Call: &c}); err != nil {
		return err
	}
	for _, change := range tracker.Add(c) {
		b := withWayOut(change.Block)
		entry := Entry{Blocked: &b}
		if change.Ended != nil {
			entry = Entry{GoesOn: &GoesOn{change.Block, *change.Ended}}
		}
		if err := show(entry); err != nil {
			return err
		}
	}
	return nil
}

// callKey identifies a call. A caller never makes two calls of one handler for the same object at the same time.
func callKey(c record.Call) string {
	return fmt.Sprint(c.Time.UnixNano(), c.Hook, c.Extension, c.Handler, c.Object)
}

// MarshalJSON encodes a call as it is, and a block as an object with the field "blocked" or "goesOn".
func (e Entry) MarshalJSON() ([]byte, error) {
	switch {
	case e.Blocked != nil:
		return json.Marshal(map[string]*Blocked{"blocked": e.Blocked})
	case e.GoesOn != nil:
		return json.Marshal(map[string]*GoesOn{"goesOn": e.GoesOn})
	}
	return json.Marshal(e.Call)
}

// Text returns the entry as one or two lines of text, with local times. The text of a block that began also shows the
// time now.
func (e Entry) Text(now time.Time) string {
	switch {
	case e.Blocked != nil:
		b, c := e.Blocked, e.Blocked.Call
		return fmt.Sprintf("%s  %s/%s is blocked since %s by %s/%s at %s; it goes on when %s\n",
			clock(now), c.Object.Namespace, c.Object.Name, clock(b.Since), c.Extension, c.Handler, c.HookName(), b.GoesOnWhen) +
			"          emergency exit: " + b.Unblock + "\n"
	case e.GoesOn != nil:
		g, c := e.GoesOn, e.GoesOn.Call
		return fmt.Sprintf("%s  %s/%s goes on: %s/%s held it at %s for %s\n",
			clock(g.Ended.Time), c.Object.Namespace, c.Object.Name, c.Extension, c.Handler, c.HookName(),
			g.Ended.Time.Sub(g.Since).Round(time.Second))
	}
	c := e.Call
	return fmt.Sprintf("%s  %-28s %s  %s  %s  %s  %s\n", clock(c.Time), c.HookName(), c.Object.Name,
		c.Extension+"/"+c.Handler, c.Answer, c.Duration.Round(100*time.Microsecond), text.OneLine(c.Why(), 100))
}

func clock(t time.Time) string { return t.Local().Format(time.TimeOnly) }
