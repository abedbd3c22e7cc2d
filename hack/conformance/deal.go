package main

import (
	"context"
	"errors"
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

// split divides specs into lists and keeps their order. Pure.
func split(specs []string, workers int) [][]string {
	size := min(max(len(specs)/(workers*listsPerWorker), 1), maxList)
	var lists [][]string
	for len(specs) > 0 {
		n := min(size, len(specs))
		lists, specs = append(lists, specs[:n]), specs[n:]
	}
	return lists
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

// namesOf returns the specs that have a verdict. Pure.
func namesOf(got []verdicts.Verdict) (names []string) {
	for _, v := range got {
		names = append(names, v.Name)
	}
	return names
}
