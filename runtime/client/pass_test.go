package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/runtime/server"
)

// An administrator's pass lets an object through the handlers that it covers, is used only if that is enough, and is
// visible to observers.
func TestPass(t *testing.T) {
	blocks, breaks, fine := waits(time.Minute, "no hosts"), fails("broken"), says("fine")
	for name, c := range map[string]struct {
		a, b    createFunc
		pass    *client.Pass
		err     error // error of looking up the pass
		lost    error // error of using the pass
		through bool
		used    int
		answers string
	}{
		"nothing holds the object back": {fine, fine, &client.Pass{}, nil, nil, true, 0, "Success Success"},
		"there is no pass":              {blocks, fine, nil, nil, nil, false, 0, "Blocked Success"},
		"looking up the pass fails": {
			blocks, fine, &client.Pass{}, errors.New("no"), nil, false, 0, "Blocked Success",
		},
		"one handler blocks":  {blocks, fine, &client.Pass{}, nil, nil, true, 1, "Passed Success"},
		"both handlers block": {blocks, blocks, &client.Pass{}, nil, nil, true, 1, "Passed Passed"},
		"one handler fails, so the other is called only to find out whether the pass suffices": {
			breaks, fine, &client.Pass{}, nil, nil, true, 1, "Passed Success",
		},
		"both handlers fail":       {breaks, breaks, &client.Pass{}, nil, nil, true, 1, "Passed Passed"},
		"the second handler fails": {fine, breaks, &client.Pass{}, nil, nil, true, 1, "Success Passed"},
		"the pass is for the handler that blocks": {blocks, fine, &client.Pass{Extension: "a"}, nil, nil, true, 1,
			"Passed Success"},
		"the pass does not cover the handler that blocks": {
			fine, blocks, &client.Pass{Extension: "a"}, nil, nil, false, 0, "Success Blocked",
		},
		"one handler fails, and the pass does not cover the other, which blocks": {
			breaks, blocks, &client.Pass{Extension: "a"}, nil, nil, false, 0, "Failure Blocked",
		},
		"somebody else has used the pass": {
			blocks, fine, &client.Pass{}, nil, errors.New("gone"), false, 1, "Blocked Success",
		},
	} {
		t.Run(name, func(t *testing.T) {
			used := 0
			// The handlers are called one after the other, so that a failure always precedes the second call.
			b := newBench(t,
				client.Options{Parallel: 1, Pass: func(_ context.Context, _ ctrlclient.Object,
					hookName string) (*client.Pass, error) {
					if hookName != "BeforeClusterCreate" {
						t.Errorf("asked about hook %s", hookName)
					}
					if c.pass != nil {
						c.pass.By = "alice: the window is wrong"
						c.pass.Use = func(context.Context) error { used++; return c.lost }
					}
					return c.pass, c.err
				}})
			b.extension("a", nil, server.Handle(hook.BeforeClusterCreate, "h", c.a))
			b.extension("b", nil, server.Handle(hook.BeforeClusterCreate, "h", c.b))
			response, err := b.create(t.Context())
			if through := err == nil && response.RetryAfterSeconds == 0; through != c.through || used != c.used {
				t.Errorf("the object goes through: %v, want %v; the pass was used %d times, want %d; %+v, %v", through,
					c.through, used, c.used, response, err)
			}
			var answers []string
			for _, call := range b.observed() {
				answers = append(answers, string(call.Answer))
				if passed := call.Answer == record.Passed; passed != (call.PassedBy == "alice: the window is wrong") {
					t.Errorf("%+v", call)
				}
			}
			if got := strings.Join(answers, " "); got != c.answers {
				t.Errorf("answers are %q, want %q", got, c.answers)
			}
			if c.used == 1 && c.through && !strings.Contains(response.Message, "was passed over by alice") {
				t.Errorf("message %q", response.Message)
			}
		})
	}
}
