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
		"all steps run when each says Next":   {second: Next(), ran: []string{"first", "second", "third"}},
		"a step that says Stop ends the pass": {second: Stop(), ran: []string{"first", "second"}},
		"a step that says StopFor asks for another pass": {
			second: StopFor(time.Minute), ran: []string{"first", "second"}, after: time.Minute,
		},
		"an error ends the pass and names the step": {err: boom, ran: []string{"first", "second"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var ran []string
			say := func(what string, a Answer, err error) Step[*[]string] {
				return Step[*[]string]{Name: what, Run: func(_ context.Context, log *[]string) (Answer, error) {
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

func TestRunSkipsStepsThatDoNotApply(t *testing.T) {
	var ran []string
	say := func(what string, when func(*[]string) bool) Step[*[]string] {
		return Step[*[]string]{Name: what, When: when, Run: func(_ context.Context, log *[]string) (Answer, error) {
			*log = append(*log, what)
			return Next(), nil
		}}
	}
	afterFirst := func(log *[]string) bool { return slices.Contains(*log, "first") }
	never := func(*[]string) bool { return false }
	if _, err := Run(t.Context(), &ran, []Step[*[]string]{
		say("too early", afterFirst), say("first", nil), say("never", never), say("second", afterFirst),
	}); err != nil || !slices.Equal(ran, []string{"first", "second"}) {
		t.Errorf("ran %v, error %v", ran, err)
	}
}

func TestFinish(t *testing.T) {
	resource := schema.GroupResource{Resource: "capstanhosts"}
	conflict := apierrors.NewConflict(resource, "host-01", errors.New("newer"))
	other, refused := errors.New("other"), errors.New("refused")
	minute := reconcile.Result{RequeueAfter: time.Minute}
	for name, c := range map[string]struct {
		err, status error
		after       time.Duration
		want        []error
	}{
		"all is well":                        {after: time.Minute},
		"a conflict becomes a pause":         {err: errors.Join(errors.New("x"), conflict), after: conflictPause},
		"a conflict of the status":           {status: conflict, after: conflictPause},
		"a step fails":                       {err: other, want: []error{other}},
		"the status fails":                   {status: refused, want: []error{refused}},
		"both fail":                          {err: other, status: refused, want: []error{other, refused}},
		"a step fails, the status conflicts": {err: other, status: conflict, want: []error{other}},
		"a step conflicts, the status too":   {err: conflict, status: conflict, after: conflictPause},
		"a step conflicts, the status fails": {err: conflict, status: refused, after: conflictPause},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := Finish(minute, c.err, c.status)
			if result.RequeueAfter != c.after || (err == nil) != (len(c.want) == 0) {
				t.Errorf("again after %v, error %v; want %v", result.RequeueAfter, err, c.after)
			}
			for _, want := range c.want {
				if !errors.Is(err, want) {
					t.Errorf("the error %v does not contain %v", err, want)
				}
			}
		})
	}
}

func TestSooner(t *testing.T) {
	for name, c := range map[string]struct{ has, other, want time.Duration }{
		"without a requested pass, the other one counts": {0, 5, 5},
		"an earlier pass wins":                           {9, 5, 5},
		"a later pass does not delay the next one":       {5, 9, 5},
		"zero means no other pass is wanted":             {5, 0, 5},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Sooner(reconcile.Result{RequeueAfter: c.has}, c.other).RequeueAfter; got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
