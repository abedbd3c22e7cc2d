package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/test/verdicts"
)

// One process of the suite runs one list of specs. Short lists keep all workers busy until the end; long lists need
// fewer processes.
const (
	listsPerWorker = 4
	maxList        = 12
)

// maxSlow limits a spec that is expected to fail: some wait forever for what can't happen.
const maxSlow = 15 * time.Minute

// split divides specs into lists. The slow specs come first, each in its own list, so that no list is still busy with
// several of them when the others are done. Apart from that, split keeps the order. Pure.
func split(specs []string, workers int, slow func(name string) bool) [][]string {
	var lists [][]string
	for _, name := range specs {
		if slow(name) {
			lists = append(lists, []string{name})
		}
	}
	specs = slices.DeleteFunc(slices.Clone(specs), slow)
	size := min(max(len(specs)/(workers*listsPerWorker), 1), maxList)
	for len(specs) > 0 {
		n := min(size, len(specs))
		lists, specs = append(lists, specs[:n]), specs[n:]
	}
	return lists
}

// apart puts the neighbours of sorted specs far from one another. Neighbours are of one kind, so they take equally
// long: a list of slow ones, such as those of probes, would keep one worker busy long after the others. Pure.
func apart(specs []string) []string {
	all := make([]string, 0, len(specs))
	step := (len(specs) + maxList - 1) / maxList
	for i := range step {
		for j := i; j < len(specs); j += step {
			all = append(all, specs[j])
		}
	}
	return all
}

// deal runs the lists, as many at a time as there are workers. It begins no list after an error, or shortly before the
// time is over: such a list is left for another part.
func deal(
	ctx context.Context, lists [][]string, workers int, until time.Time, run func([]string) error,
) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	next := func() []string {
		mu.Lock()
		defer mu.Unlock()
		if len(lists) == 0 || ctx.Err() != nil || time.Until(until) < least {
			return nil
		}
		list := lists[0]
		lists = lists[1:]
		return list
	}
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for list := next(); list != nil; list = next() {
				if failed := run(list); failed != nil {
					mu.Lock()
					err = errors.Join(err, failed)
					mu.Unlock()
					stop()
				}
			}
		})
	}
	group.Wait()
	return err
}

// limit returns the time at which a list must end: until, or maxSlow from now for the list of a slow spec. Pure.
func limit(list []string, slow func(name string) bool, now, until time.Time) time.Time {
	if end := now.Add(maxSlow); len(list) == 1 && slow(list[0]) && end.Before(until) {
		return end
	}
	return until
}

// overdue returns the verdicts about a list. If the list ended at its own limit, its spec has failed. Pure.
func overdue(list []string, got []verdicts.Verdict, now, end, until time.Time) []verdicts.Verdict {
	if !end.Before(until) || now.Before(end) || slices.Contains(namesOf(got), list[0]) {
		return got
	}
	return append(got, verdicts.Verdict{
		Name: list[0], Outcome: verdicts.Failed, Seconds: maxSlow.Seconds(),
		Message: "stopped: it did not end within " + maxSlow.String(),
	})
}

// namesOf returns the specs that have a verdict. Pure.
func namesOf(got []verdicts.Verdict) (names []string) {
	for _, v := range got {
		names = append(names, v.Name)
	}
	return names
}
