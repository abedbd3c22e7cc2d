package client

import (
	"context"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/internal/wire"
	"github.com/capstan-dev/capstan/runtime/record"
)

// PassFunc gives the pass that there is for an object at the hook of this name, for example BeforeClusterUpgrade; nil if there is none. It should be quick.
type PassFunc func(ctx context.Context, object ctrlclient.Object, hook string) (*Pass, error)

// Pass lets an object through a hook that handlers hold it back at.
type Pass struct {
	// Extension is the name of the ExtensionConfig whose handlers are passed over; empty: all of them.
	Extension string
	// By says who lets it through, and why.
	By string
	// Use takes the pass, which is good for one time. It is called only if nothing else holds the object back, before the object is let through; if it fails, the
	// object is not.
	Use func(ctx context.Context) error
}

// passOver lets the object through if there is a pass for everything that holds it back. Handlers that were not asked, because one before them had failed, are
// asked before that is known.
func (c *Client) passOver(ctx context.Context, descriptor *hook.Descriptor, object ctrlclient.Object, calls []call) {
	if c.options.Pass == nil || !holdsAny(calls) || ctx.Err() != nil {
		return
	}
	logger := log.FromContext(ctx).WithValues("hook", descriptor.ID.Name, "object", ctrlclient.ObjectKeyFromObject(object))
	pass, err := c.options.Pass(ctx, object, descriptor.ID.Name)
	if err != nil {
		logger.Error(err, "Whether an administrator lets the object through could not be found out")
	}
	if err != nil || pass == nil {
		return
	}
	for {
		var rest []int
		for i := range calls {
			one := &calls[i]
			switch {
			case !one.asked || one.record.Answer == record.Canceled:
				rest = append(rest, i)
			case holds(one) && !pass.covers(one):
				return // the pass would be lost
			}
		}
		if len(rest) == 0 {
			break
		}
		c.askRest(ctx, calls, rest)
		if ctx.Err() != nil {
			return
		}
	}
	if err := pass.Use(ctx); err != nil {
		logger.Error(err, "An administrator lets the object through, but the permission could not be used")
		return
	}
	for i := range calls {
		if one := &calls[i]; holds(one) {
			one.passed(pass)
		}
	}
}

func holdsAny(calls []call) bool {
	for i := range calls {
		if holds(&calls[i]) {
			return true
		}
	}
	return false
}

// holds tells whether a handler holds the object back.
func holds(one *call) bool {
	return one.asked && (one.record.Answer == record.Blocked || one.record.Answer == record.Failure)
}

func (p *Pass) covers(one *call) bool {
	return p.Extension == "" || p.Extension == one.handler.Extension.Name
}

// askRest makes the calls with these numbers, as a round of their own.
func (c *Client) askRest(ctx context.Context, calls []call, rest []int) {
	again := make([]call, len(rest))
	for to, from := range rest {
		one := &calls[from]
		again[to].handler, again[to].descriptor, again[to].conversion, again[to].endpoint, again[to].body = one.handler, one.descriptor, one.conversion, one.endpoint, one.body
	}
	c.run(ctx, again)
	for from, to := range rest {
		one := &again[from]
		calls[to].asked, calls[to].response, calls[to].err, calls[to].record = one.asked, one.response, one.err, one.record
	}
}

// passed makes a call that holds the object back one that does not.
func (r *call) passed(pass *Pass) {
	r.record.Answer, r.record.PassedBy = record.Passed, pass.By
	r.err = nil
	r.response = r.descriptor.NewResponse()
	r.response.SetStatus(runtimehooksv1.ResponseStatusSuccess)
	r.response.SetMessage(wire.Clip("handler "+r.handler.Name+" was passed over by "+pass.By, wire.MaxMessage))
}
