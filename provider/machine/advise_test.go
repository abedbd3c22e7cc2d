package machine

import (
	"context"
	"testing"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

func TestAdviseOn(t *testing.T) {
	says := func(text string) func(context.Context, string) string {
		return func(_ context.Context, namespace string) string {
			if namespace == "" || text == "" {
				return ""
			}
			return text + " in " + namespace
		}
	}
	lacks := "there are no hosts in this namespace; "
	for name, c := range map[string]struct {
		reason, message string
		shortage        func(context.Context, string) string
		want            string
	}{
		"there is no function Shortage": {infrav1.NoHostMatchesReason, lacks + addHosts, nil, lacks + addHosts},
		"Shortage has no advice": {
			infrav1.NoHostMatchesReason, lacks + addHosts, says(""), lacks + addHosts},
		"the namespace lacks hosts": {
			infrav1.NoHostMatchesReason, lacks + addHosts, says("its share comes"), lacks + "its share comes in default"},
		"the obstacle has another reason": {infrav1.DeletingReason, addHosts, says("its share comes"), addHosts},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, world()...).scope()
			s.obstacle = &step.Obstacle{Reason: c.reason, Message: c.message}
			(&Reconciler{Shortage: c.shortage}).adviseOn(t.Context(), s)
			if s.obstacle.Message != c.want {
				t.Errorf("got %q, want %q", s.obstacle.Message, c.want)
			}
		})
	}
}
