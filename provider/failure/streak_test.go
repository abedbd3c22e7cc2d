package failure

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

var secretsResource = schema.GroupResource{Resource: "secrets"}

// play is an object whose passes have the results that a test chooses.
type play struct {
	Streaks
	clock  *clocktesting.FakePassiveClock
	object *infrav1.CapstanMachine
	writes int
}

func newPlay() *play {
	return &play{
		clock:  clocktesting.NewFakePassiveClock(time.Now()),
		object: &infrav1.CapstanMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "m"}},
	}
}

// pass ends a pass with an error, counts a write if the condition changed, and advances the clock.
func (p *play) pass(after time.Duration, err error) {
	before := p.object.DeepCopy()
	if c, ok := p.Judge(p.clock, p.object, err); ok {
		Set(p.object, c)
	}
	if was, is := shown(before), shown(p.object); was != is {
		p.writes++
	}
	p.clock.SetTime(p.clock.Now().Add(after))
}

func shown(object *infrav1.CapstanMachine) string {
	c := conditions.Get(object, infrav1.ReconciledCondition)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason + " " + c.Message
}

func TestJudge(t *testing.T) {
	forbidden := apierrors.NewForbidden(secretsResource, "b", errors.New("no rule"))
	conflict := apierrors.NewConflict(secretsResource, "b", errors.New("newer"))
	for name, c := range map[string]struct {
		err  error
		want string // the message after step.Settle
	}{
		"no error": {},
		"an ordinary error": {
			fmt.Errorf("claim a host: %w", errors.New("boom")),
			"False StepFailed claim a host: boom; the controller retries; if this persists, remove the cause named here",
		},
		"a missing right": {
			fmt.Errorf("read: %w", forbidden),
			`False AccessDenied read: secrets "b" is forbidden: no rule; ` +
				"grant the controller this right, or change the policy that denies it; the controller retries",
		},
		"an unknown account":           {apierrors.NewUnauthorized("who"), "False AccessDenied who"},
		"a conflict is not shown":      {fmt.Errorf("x: %w", conflict), ""},
		"a cancelled context":          {fmt.Errorf("x: %w", context.Canceled), ""},
		"a context whose time is over": {fmt.Errorf("x: %w", context.DeadlineExceeded), ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlay()
			p.pass(step.Settle, c.err)
			if got := shown(p.object); got != "" {
				t.Errorf("the first failure is shown at once: %s", got)
			}
			p.pass(0, c.err)
			if got := shown(p.object); got != c.want && (c.want == "" || !strings.HasPrefix(got, c.want)) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			p.pass(0, nil)
			if got := shown(p.object); got != "" || len(p.all) != 0 {
				t.Errorf("after success: %q, streaks %v", got, p.all)
			}
		})
	}
}

// TestAFailureIsWrittenOnce checks that a message does not change with each pass: each write starts a pass, so the
// writes would never stop.
func TestAFailureIsWrittenOnce(t *testing.T) {
	const passes = 300
	n := 0
	for name, c := range map[string]struct {
		err func() error
		max int
	}{
		"the same text":         {func() error { return errors.New("boom") }, 1},
		"only numbers differ":   {func() error { n++; return fmt.Errorf("tcp 10.0.0.1:%d: reset in %dms", 4000+n, n) }, 1},
		"two errors take turns": {func() error { n++; return errors.New([]string{"one", "other"}[n%2]) }, 4},
		"every 2nd pass works":  {func() error { n++; return []error{nil, errors.New("boom")}[n%2] }, 0},
		"every text is new":     {func() error { n++; return errors.New(strings.Repeat("x", n)) }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlay()
			for range passes {
				p.pass(100*time.Millisecond, c.err())
			}
			if p.writes > c.max {
				t.Errorf("%d writes in %d passes, want %d at most", p.writes, passes, c.max)
			}
			t.Logf("%d writes", p.writes)
		})
	}
}

// TestAfterARestart checks that the message of an earlier process stays until the failure has persisted long enough in
// this process, and is not rewritten.
func TestAfterARestart(t *testing.T) {
	p := newPlay()
	p.pass(step.Settle, errors.New("boom 1"))
	p.pass(step.Settle, errors.New("boom 1"))
	if p.writes != 1 {
		t.Fatalf("%d writes", p.writes)
	}
	p.Streaks.all = nil
	p.pass(step.Settle, errors.New("boom 2"))
	p.pass(step.Settle, errors.New("boom 2"))
	if got := shown(p.object); p.writes != 1 || !strings.Contains(got, "boom 1") {
		t.Errorf("%d writes, shown %s", p.writes, got)
	}
	p.pass(step.Settle, errors.New("another"))
	if got := shown(p.object); p.writes != 2 || !strings.Contains(got, "another") {
		t.Errorf("%d writes, shown %s", p.writes, got)
	}
}

func TestForget(t *testing.T) {
	p := newPlay()
	p.pass(step.Settle, errors.New("boom"))
	p.Forget(types.NamespacedName{Namespace: "a", Name: "m"})
	p.pass(0, errors.New("boom"))
	if got := shown(p.object); got != "" {
		t.Errorf("after Forget, the streak of the object goes on: %s", got)
	}
}
