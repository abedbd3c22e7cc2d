package hooks

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/internal/poll"
	"github.com/capstan-dev/capstan/internal/text"
	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/runtime/unblock"
)

const (
	// passTimeout bounds how long [Unblocking.Wait] waits until the Cluster has passed the hook, which is called again
	// within seconds.
	passTimeout = time.Minute
	// journalLag is how long the journal may take to show the use of a permission after the Cluster shows it.
	journalLag = 3 * time.Second
)

// Unblocking lets a Cluster pass, once, a hook whose handlers block it. Call [Unblocking.Find], then
// [Unblocking.Grant], then [Unblocking.Wait].
type Unblocking struct {
	// Client is a client of the management plane.
	Client client.Client
	// Cluster is the Cluster as it was read.
	Cluster *clusterv1.Cluster
	// Order is the permission. Find completes its Hook and By.
	Order unblock.Order
	// Calls returns the calls made for the Cluster, oldest first.
	Calls func() ([]record.Call, error)

	after time.Time // time of the first call that Find has found
}

// Find returns what blocks the Cluster at the Order's hook. The case of the hook's name does not matter.
func (u *Unblocking) Find(ctx context.Context) ([]record.Block, error) {
	calls, err := u.Calls()
	if err != nil {
		return nil, err
	}
	blocks, err := blocksAt(record.Blocks(calls), u.Order.Hook, u.Order.Extension)
	if err != nil {
		return nil, hint.Errorf(u.timeline(), "unblocking cluster %s: %w", u.Cluster.Name, err)
	}
	u.Order.Hook, u.after = blocks[0].Call.HookName(), blocks[0].Call.Time
	u.Order.By, err = whoAmI(ctx, u.Client)
	return blocks, err
}

// timeline returns the advice to look at the calls.
func (u *Unblocking) timeline() string { return "see: capstan hook timeline " + u.Cluster.Name }

// Grant writes the permission. It retries after conflicts, because the Cluster's status changes all the time, but fails
// if somebody changes the spec.
func (u *Unblocking) Grant(ctx context.Context) error {
	generation := u.Cluster.Generation
	return poll.Until(ctx, func() (bool, error) {
		err := unblock.Grant(ctx, u.Client, u.Cluster, u.Order)
		if err == nil {
			return true, nil
		}
		if again := u.Client.Get(ctx, client.ObjectKeyFromObject(u.Cluster), u.Cluster); again != nil {
			return false, again
		}
		if u.Cluster.Generation != generation {
			return true, hint.Errorf("look at it again: capstan hook timeline "+u.Cluster.Name,
				"cluster %s was just changed by somebody else", u.Cluster.Name)
		}
		return false, err
	})
}

// Wait waits until the permission is used, for at most a minute and no longer than the permission is valid. Meanwhile
// it repeatedly calls the function waiting, with a description of what is still missing.
func (u *Unblocking) Wait(ctx context.Context, waiting func(detail string)) error {
	ctx, cancel := context.WithTimeout(ctx, min(passTimeout, time.Until(u.Order.Until)))
	defer cancel()
	var gone time.Time // when the permission was seen to be gone; the journal shows the call a moment later
	err := poll.Until(ctx, func() (bool, error) {
		calls, err := u.Calls()
		if err != nil {
			return false, err
		}
		if passedSince(calls, u.Order.Hook, u.after) {
			return true, nil
		}
		if !gone.IsZero() && time.Since(gone) > journalLag {
			return true, notPassed(calls, u.Order)
		}
		if err := u.Client.Get(ctx, client.ObjectKeyFromObject(u.Cluster), u.Cluster); err != nil {
			return false, err
		}
		switch there := u.Cluster.Annotations[unblock.Annotation] != ""; {
		case there:
			gone = time.Time{}
		case gone.IsZero():
			gone = time.Now()
		}
		waiting(stillBlocked(calls, u.Order))
		return false, nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return hint.Errorf(u.timeline(), "the cluster has not passed the hook yet; the permission is valid until %s",
			u.Order.Until.Local().Format(time.TimeOnly))
	}
	if err != nil {
		return fmt.Errorf("unblocking cluster %s: %w", u.Cluster.Name, err)
	}
	return nil
}

// notPassed returns why an unused permission is gone. Pure.
func notPassed(calls []record.Call, order unblock.Order) error {
	if _, err := blocksAt(record.Blocks(calls), order.Hook, order.Extension); err != nil {
		return errors.New("the permission was no longer needed: nothing blocks the cluster at the hook now")
	}
	return hint.Errorf("run the command again", "somebody removed the permission before it could be used")
}

// passedSince reports whether an administrator's permission was used. Pure.
func passedSince(calls []record.Call, hook string, after time.Time) bool {
	return slices.ContainsFunc(calls, func(c record.Call) bool {
		return c.Answer == record.Passed && c.HookName() == hook && c.Time.After(after)
	})
}

// stillBlocked says who else blocks the cluster. Pure.
func stillBlocked(calls []record.Call, order unblock.Order) string {
	for _, b := range record.Blocks(calls) {
		if b.Call.HookName() == order.Hook && order.Extension != "" && b.Call.Extension != order.Extension {
			return fmt.Sprintf("extension %s also blocks it: %s", b.Call.Extension, text.OneLine(b.Call.Why(), 100))
		}
	}
	return "waiting for the next call of the hook"
}

// blocksAt returns the blocks at a hook. Pure.
func blocksAt(all []record.Block, hook, extension string) ([]record.Block, error) {
	if len(all) == 0 {
		return nil, errors.New("no hook blocks it")
	}
	var found []record.Block
	var others []string
	for _, b := range all {
		name := b.Call.HookName()
		if strings.EqualFold(name, hook) && (extension == "" || extension == b.Call.Extension) {
			found = append(found, b)
		} else {
			others = append(others, name+" by extension "+b.Call.Extension)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("hook %s does not block it; what blocks it: %s", hook, strings.Join(others, ", "))
	}
	return found, nil
}

// whoAmI returns who gives a permission: the user known to the API server, and the user of this machine.
func whoAmI(ctx context.Context, c client.Client) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return "", fmt.Errorf("asking the management plane who you are: %w", err)
	}
	who := review.Status.UserInfo.Username
	if here, err := user.Current(); err == nil {
		who += " (" + here.Username + ")"
	}
	return who, nil
}
