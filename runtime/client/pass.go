package client

import (
	"context"

	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capstan-dev/capstan/runtime/record"
)

// PassFunc returns the pass for an object at the hook of this name, for example BeforeClusterUpgrade, or nil if there
// is none. It should be quick.
type PassFunc func(ctx context.Context, object ctrlclient.Object, hook string) (*Pass, error)

// Pass lets an object through a hook whose handlers hold it back.
type Pass struct {
	// Extension is the name of the ExtensionConfig whose handlers are overridden. If empty, all handlers are.
	Extension string
	// By says who lets the object through, and why.
	By string
	// Use consumes the pass, which is valid once. It is called before the object is let through, and only if nothing else
	// holds the object back. If it fails, the object is still held back.
	Use func(ctx context.Context) error
}

// passOver lets the object through if there is a pass for everything that holds it back. To find that out, it first
// calls the handlers that were not called because one before them had failed.
func (c *Client) passOver(ctx context.Context, q *question, outcomes []outcome) {
	if c.options.Pass == nil || !holdsAny(outcomes) || ctx.Err() != nil {
		return
	}
	logger := log.FromContext(ctx).WithValues("hook", q.hook.ID.Name, "object", ctrlclient.ObjectKeyFromObject(q.object))
	pass, err := c.options.Pass(ctx, q.object, q.hook.ID.Name)
	if err != nil {
		logger.Error(err, "Could not find out whether an administrator lets the object through")
	}
	if err != nil || pass == nil {
		return
	}
	for {
		var rest []int
		for i := range outcomes {
			o := &outcomes[i]
			switch {
			case !o.asked || o.record.Answer == record.Canceled:
				rest = append(rest, i)
			case o.holds() && !pass.covers(&q.asks[i]):
				return // using the pass would waste it
			}
		}
		if len(rest) == 0 {
			break
		}
		for from, o := range c.run(ctx, q.of(rest)) {
			outcomes[rest[from]] = o
		}
		if ctx.Err() != nil {
			return
		}
	}
	if err := pass.Use(ctx); err != nil {
		logger.Error(err, "An administrator lets the object through, but the permission could not be used")
		return
	}
	for i := range outcomes {
		if o := &outcomes[i]; o.holds() {
			o.passed(q, &q.asks[i], pass)
		}
	}
}

func holdsAny(outcomes []outcome) bool {
	for i := range outcomes {
		if outcomes[i].holds() {
			return true
		}
	}
	return false
}

func (p *Pass) covers(a *ask) bool {
	return p.Extension == "" || p.Extension == a.handler.Extension.Name
}
