package client

import (
	"context"
	"errors"
	"io"
	"testing"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/runtime/registry"
)

// Each kind of failure has a defined effect on the handler's failure policy, the circuit and observers (CL-04, CL-05,
// CL-20).
func TestKindsOfFailures(t *testing.T) {
	for kind, want := range map[kind]struct {
		ignored bool          // by the failure policy Ignore
		answer  record.Answer // if it is not ignored
		health  health
	}{
		noAnswer:       {true, record.Failure, fails},
		notAsked:       {true, record.Failure, unclear},
		unknownHandler: {true, record.Failure, works},
		refused:        {false, record.Failure, works},
		misconfigured:  {false, record.Failure, works},
		abandoned:      {false, record.Failure, unclear},
		superfluous:    {false, record.Canceled, unclear},
	} {
		if is := consequences[kind].health; is != want.health {
			t.Errorf("kind %d says %d about the extension, want %d", kind, is, want.health)
		}
		q := &question{hook: hook.BeforeClusterCreate.Descriptor()}
		response := q.hook.NewResponse()
		response.SetMessage("said")
		for policy, ignores := range map[runtimev1.FailurePolicy]bool{
			runtimev1.FailurePolicyFail: false, runtimev1.FailurePolicyIgnore: true,
		} {
			var o outcome
			a := &ask{handler: &registry.Handler{Name: "a.b", IgnoreFailures: ignores}}
			o.failed(q, a, &failure{kind: kind, cause: io.EOF}, response)
			if !errors.Is(o.record.Err, io.EOF) {
				t.Errorf("kind %d with policy %s: observers get %v", kind, policy, o.record.Err)
			}
			if ignores && want.ignored {
				if o.err != nil || o.response == nil || o.response.GetMessage() != "" || o.record.Answer != record.Ignored {
					t.Errorf("kind %d with policy %s: %+v", kind, policy, o)
				}
				continue
			}
			var call *CallError
			if !errors.As(o.err, &call) || call.Handler != "a.b" || o.record.Answer != want.answer {
				t.Errorf("kind %d with policy %s: %+v", kind, policy, o)
			}
			if (o.response != nil) != (kind == refused) {
				t.Errorf("kind %d with policy %s has the response %v", kind, policy, o.response)
			}
		}
	}
}

// Errors that callers match stay in the chain of a failure, whatever its text.
func TestFailuresMatchTheirCauses(t *testing.T) {
	late := &failure{text: "it did not answer within 1s", cause: context.DeadlineExceeded}
	left := &CallError{Err: &failure{kind: notAsked, cause: late}}
	if !errors.Is(left, ErrNotAsked) || !errors.Is(left, context.DeadlineExceeded) || errors.Is(late, ErrNotAsked) {
		t.Errorf("%v does not match its causes", left)
	}
	if left.Err.Error() != late.text {
		t.Errorf("a call that was not made says %q, not what the last failure says", left.Err)
	}
	if f := failureOf(io.EOF); f.kind != noAnswer || !errors.Is(f, io.EOF) {
		t.Errorf("an error of unknown kind: %+v", f)
	}
	if f := failureOf(nil); f != nil {
		t.Errorf("no error: %+v", f)
	}
}
