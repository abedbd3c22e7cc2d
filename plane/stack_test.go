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
			ended = append(ended, name) // needs no lock: each part stops only after the part above it has stopped
			return nil
		})
	}
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"manager", "apiserver", "etcd"}; !slices.Equal(ended, want) {
		t.Errorf("they ended as %v, want %v", ended, want)
	}
}

func TestStackTellsWhoFailed(t *testing.T) {
	cases := map[string]struct {
		err  error
		want string
	}{
		"with an error": {errors.New("no disk"), "etcd: no disk"},
		"without one":   {nil, "etcd: it exited by itself"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStack()
			s.start("etcd", func(context.Context) error { return c.err })
			select {
			case err := <-s.failed:
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v", err)
				}
			case <-time.After(10 * time.Second):
				t.Error("nobody was told")
			}
			if err := s.end(); err != nil {
				t.Errorf("told twice: %v", err)
			}
		})
	}
}

func TestStackReportsAFailureWhileEnding(t *testing.T) {
	s := newStack()
	s.start("manager", func(ctx context.Context) error { <-ctx.Done(); return errors.New("stuck") })
	if err := s.end(); err == nil || !strings.Contains(err.Error(), "ending manager: stuck") {
		t.Errorf("got %v", err)
	}
}
