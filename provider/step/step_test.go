package step

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestRun(t *testing.T) {
	boom := errors.New("boom")
	cases := map[string]struct {
		second Answer
		err    error
		ran    []string
		after  time.Duration
	}{
		"all steps run when each says Next":              {second: Next(), ran: []string{"first", "second", "third"}},
		"a step that says Stop ends the pass":            {second: Stop(), ran: []string{"first", "second"}},
		"a step that says StopFor asks for another pass": {second: StopFor(time.Minute), ran: []string{"first", "second"}, after: time.Minute},
		"an error ends the pass and names the step":      {err: boom, ran: []string{"first", "second"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var ran []string
			say := func(what string, a Answer, err error) Step[*[]string] {
				return Step[*[]string]{what, func(_ context.Context, log *[]string) (Answer, error) {
					*log = append(*log, what)
					return a, err
				}}
			}
			result, err := Run(t.Context(), &ran, []Step[*[]string]{
				say("first", Next(), nil), say("second", c.second, c.err), say("third", Next(), nil),
			})
			if !errors.Is(err, c.err) || (err != nil && !strings.HasPrefix(err.Error(), "second: ")) {
				t.Errorf("error %v, want %v with the step's name", err, c.err)
			}
			if !slices.Equal(ran, c.ran) || result.RequeueAfter != c.after {
				t.Errorf("ran %v, again after %v; want %v, %v", ran, result.RequeueAfter, c.ran, c.after)
			}
		})
	}
}

func TestFinish(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "capstanhosts"}, "host-01", errors.New("newer"))
	if result, err := Finish(reconcile.Result{}, errors.Join(errors.New("x"), conflict)); err != nil || result.RequeueAfter == 0 {
		t.Errorf("a conflict gave %v, %v; want a pause and no error", result, err)
	}
	other := errors.New("other")
	if _, err := Finish(reconcile.Result{}, other); !errors.Is(err, other) {
		t.Errorf("an error that is no conflict gave %v", err)
	}
}

func TestSooner(t *testing.T) {
	for name, c := range map[string]struct{ has, other, want time.Duration }{
		"no pass asked for takes the other":  {0, 5, 5},
		"the earlier one wins":               {9, 5, 5},
		"a later one does not delay":         {5, 9, 5},
		"zero means no other pass is wanted": {5, 0, 5},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Sooner(reconcile.Result{RequeueAfter: c.has}, c.other).RequeueAfter; got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
