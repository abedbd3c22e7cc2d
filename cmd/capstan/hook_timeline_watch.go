package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/runtime/record"
)

// watchPause is between two looks at the journal.
const watchPause = 500 * time.Millisecond

// goesOn is a block that has ended, as a line of JSON.
type goesOn struct {
	record.Block

	// Ended is the call that ended it.
	Ended record.Call `json:"endedBy"`
}

// watchTimeline prints the calls of the journal and what they block, then calls as they are made, and blocks as they begin and end, until ctx ends.
func (a *app) watchTimeline(ctx context.Context, cluster, format string) error {
	if format == "yaml" {
		return hint("use -o table or -o json", "--watch does not go with -o yaml")
	}
	calls, err := a.hookCalls(cluster)
	if err != nil {
		return err
	}
	tracker := record.NewTracker(calls)
	seen := make(map[string]bool, len(calls))
	for _, c := range calls {
		seen[callKey(c)] = true
		if err := a.printCall(c, format); err != nil {
			return err
		}
	}
	for _, b := range blockedNow(calls, a.stillCounts(ctx)) {
		if err := a.printBlocked(b, format); err != nil {
			return err
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchPause):
		}
		if calls, err = a.hookCalls(cluster); err != nil {
			return err
		}
		// What the journal has forgotten is forgotten here too.
		now := make(map[string]bool, len(calls))
		for _, c := range calls {
			key := callKey(c)
			if now[key] = true; seen[key] {
				continue
			}
			if err := a.printCall(c, format); err != nil {
				return err
			}
			for _, change := range tracker.Add(c) {
				if err := a.printChange(change, format); err != nil {
					return err
				}
			}
		}
		seen = now
	}
}

// callKey tells a call from all others: a handler is asked about one object by one caller at a time.
func callKey(c record.Call) string {
	return fmt.Sprint(c.Time.UnixNano(), c.Hook, c.Extension, c.Handler, c.Object)
}

func (a *app) printCall(c record.Call, format string) error {
	if format == "json" {
		return json.NewEncoder(a.out).Encode(c)
	}
	_, err := fmt.Fprintf(a.out, "%s  %-28s %s  %s  %s  %s  %s\n", c.Time.Local().Format(time.TimeOnly), hookName(c.Hook), c.Object.Name,
		c.Extension+"/"+c.Handler, c.Answer, c.Duration.Round(100*time.Microsecond), oneLine(blockText(c), 100))
	return err
}

func (a *app) printChange(change record.Change, format string) error {
	if change.Ended == nil {
		return a.printBlocked(withWayOut(change.Block), format)
	}
	if format == "json" {
		return json.NewEncoder(a.out).Encode(map[string]goesOn{"goesOn": {change.Block, *change.Ended}})
	}
	b := change.Block
	_, err := fmt.Fprintf(a.out, "%s  %s/%s goes on: %s/%s held it at %s for %s\n", change.Ended.Time.Local().Format(time.TimeOnly), b.Call.Object.Namespace,
		b.Call.Object.Name, b.Call.Extension, b.Call.Handler, hookName(b.Call.Hook), change.Ended.Time.Sub(b.Since).Round(time.Second))
	return err
}

func (a *app) printBlocked(b blocked, format string) error {
	if format == "json" {
		return json.NewEncoder(a.out).Encode(map[string]blocked{"blocked": b})
	}
	_, err := fmt.Fprintf(a.out, "%s  %s/%s is blocked since %s by %s/%s at %s; it goes on when %s\n          emergency exit: %s\n", time.Now().Local().Format(time.TimeOnly),
		b.Call.Object.Namespace, b.Call.Object.Name, b.Since.Local().Format(time.TimeOnly), b.Call.Extension, b.Call.Handler, hookName(b.Call.Hook), b.GoesOnWhen, b.Unblock)
	return err
}
