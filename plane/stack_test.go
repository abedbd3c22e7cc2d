//go:build linux

package plane

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestStackEndsInTheOppositeOrder(t *testing.T) {
	s := newStack()
	var ended []string
	for _, name := range []string{"etcd", "apiserver", "manager"} {
		s.start(name, func(ctx context.Context) error {
			<-ctx.Done()
			ended = append(ended, name) // needs no lock: the parts stop one after the other
			return nil
		})
	}
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"manager", "apiserver", "etcd"}; !slices.Equal(ended, want) {
		t.Errorf("the parts stopped in the order %v, want %v", ended, want)
	}
}

func TestStackTellsWhoFailed(t *testing.T) {
	cases := map[string]struct {
		err  error
		want string
	}{
		"a part that fails":                  {errors.New("no disk"), "etcd: no disk"},
		"a part that exits without an error": {nil, "etcd: it exited by itself"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStack()
			s.start("etcd", func(context.Context) error { return c.err })
			select {
			case err := <-s.failed:
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("the reported error is %v", err)
				}
			case <-time.After(10 * time.Second):
				t.Error("the failure was not reported")
			}
			if err := s.end(); err != nil {
				t.Errorf("the failure was reported twice: %v", err)
			}
		})
	}
}

func TestStackReportsAFailureWhileEnding(t *testing.T) {
	s := newStack()
	s.start("manager", func(ctx context.Context) error { <-ctx.Done(); return errors.New("stuck") })
	if err := s.end(); err == nil || !strings.Contains(err.Error(), "ending manager: stuck") {
		t.Errorf("got error %v, want that of the part", err)
	}
}
