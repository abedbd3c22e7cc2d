package hooks

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/runtime/unblock"
)

func TestBlocksAt(t *testing.T) {
	block := func(hook, extension string) record.Block {
		return record.Block{Call: record.Call{Hook: "g/v1/" + hook, Extension: extension}}
	}
	two := []record.Block{block("BeforeClusterUpgrade", "a"), block("BeforeClusterUpgrade", "b")}
	for name, c := range map[string]struct {
		all             []record.Block
		hook, extension string
		want            int
		err             string
	}{
		"all extensions that block":        {two, "BeforeClusterUpgrade", "", 2, ""},
		"the hook's name in lower case":    {two, "beforeclusterupgrade", "", 2, ""},
		"one of the extensions that block": {two, "BeforeClusterUpgrade", "b", 1, ""},
		"an extension that does not block": {two, "BeforeClusterUpgrade", "c", 0,
			"what blocks it: BeforeClusterUpgrade by extension a, "},
		"a hook that does not block": {two, "BeforeClusterDelete", "", 0,
			"hook BeforeClusterDelete does not block it; what blocks it: "},
		"a cluster that no hook blocks": {nil, "BeforeClusterDelete", "", 0, "no hook blocks it"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := blocksAt(c.all, c.hook, c.extension)
			if len(got) != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestPassedSince(t *testing.T) {
	at := time.Now()
	passed := record.Call{Time: at, Hook: "g/v1/BeforeClusterUpgrade", Answer: record.Passed}
	if !passedSince([]record.Call{passed}, "BeforeClusterUpgrade", at.Add(-time.Second)) {
		t.Error("a passed call after the given time was not found")
	}
	if passedSince([]record.Call{passed}, "BeforeClusterUpgrade", at) ||
		passedSince([]record.Call{passed}, "BeforeClusterDelete", at.Add(-time.Second)) {
		t.Error("a passed call of another time or hook was found")
	}
}

func TestStillBlocked(t *testing.T) {
	calls := []record.Call{
		{Hook: "g/v1/BeforeClusterUpgrade", Extension: "other", Answer: record.Blocked, Message: "no hosts"},
	}
	if got := stillBlocked(calls, unblock.Order{Hook: "BeforeClusterUpgrade", Extension: "mine"}); !strings.Contains(got,
		"extension other also blocks it: no hosts") {
		t.Errorf("for one of two extensions: got %q", got)
	}
	if got := stillBlocked(calls, unblock.Order{Hook: "BeforeClusterUpgrade"}); strings.Contains(got, "also blocks") {
		t.Errorf("for all extensions: got %q", got)
	}
}

func TestNotPassed(t *testing.T) {
	order := unblock.Order{Hook: "BeforeClusterUpgrade"}
	call := record.Call{Hook: "g/v1/BeforeClusterUpgrade", Answer: record.Blocked}
	if err := notPassed([]record.Call{call}, order); !strings.Contains(err.Error(), "somebody removed") {
		t.Errorf("while a handler blocks: got error %v", err)
	}
	call.Answer = record.Success
	if err := notPassed([]record.Call{call}, order); !strings.Contains(err.Error(), "no longer needed") {
		t.Errorf("when no handler blocks any more: got error %v", err)
	}
}

// changing is an API server on which somebody changes the Cluster before the first write.
type changing struct {
	client.Client
	spec    bool // change the spec, not only the status
	patches int
	granted bool
}

func (c *changing) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	if c.patches++; c.patches == 1 {
		return errors.New("conflict")
	}
	c.granted = true
	return nil
}

func (c *changing) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if c.spec {
		o.SetGeneration(o.GetGeneration() + 1)
	}
	return nil
}

// TestGrant: the permission is for the spec that the administrator has seen.
func TestGrant(t *testing.T) {
	order := unblock.Order{Hook: "BeforeClusterUpgrade", By: "me", Reason: "x", Until: time.Now().Add(time.Minute)}
	for name, spec := range map[string]bool{"the status changes": false, "the spec changes": true} {
		t.Run(name, func(t *testing.T) {
			c := &changing{spec: spec}
			u := &Unblocking{Client: c, Cluster: &clusterv1.Cluster{}, Order: order}
			err := u.Grant(t.Context())
			if c.granted == spec || (err == nil) == spec ||
				err != nil && !strings.Contains(err.Error(), "was just changed by somebody") {
				t.Errorf("was the permission granted? got %t after %d writes, error %v", c.granted, c.patches, err)
			}
		})
	}
}

// standing is an API server with a Cluster that has a permission. If the field gone is not 0, the permission is missing
// from the request with that number on.
type standing struct {
	client.Client
	gone, asked int
	denied      error // error of the request for the user's name
}

func (c *standing) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	o.SetAnnotations(map[string]string{unblock.Annotation: "{}"})
	if c.asked++; c.gone > 0 && c.asked >= c.gone {
		o.SetAnnotations(nil)
	}
	return nil
}

func (c *standing) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	if review, ok := o.(*authenticationv1.SelfSubjectReview); ok {
		review.Status.UserInfo.Username = "alice"
	}
	return c.denied
}

// TestWait: the wait ends when the permission was used, when it is gone for another reason, and when it expires.
func TestWait(t *testing.T) {
	const hook = "g/v1/BeforeClusterUpgrade"
	at := time.Now()
	blocks := record.Call{Time: at, Hook: hook, Extension: "e", Handler: "h", Answer: record.Blocked}
	passes := record.Call{Time: at.Add(time.Second), Hook: hook, Extension: "e", Handler: "h", Answer: record.Passed}
	goes := record.Call{Time: at.Add(time.Second), Hook: hook, Extension: "e", Handler: "h", Answer: record.Success}
	for name, c := range map[string]struct {
		calls []record.Call // what Calls returns from the third request on
		gone  int
		want  string
	}{
		"the permission was used":                            {[]record.Call{blocks, passes}, 0, ""},
		"the permission is gone and nothing blocks any more": {[]record.Call{blocks, goes}, 2, "was no longer needed"},
		"the permission is gone and the hook still blocks":   {[]record.Call{blocks}, 2, "somebody removed"},
		"the hook is not called again":                       {[]record.Call{blocks}, 0, "has not passed the hook yet"},
		"the permission was used and is gone":                {[]record.Call{blocks, passes}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				u := &Unblocking{
					Client: &standing{gone: c.gone}, Cluster: &clusterv1.Cluster{}, after: at,
					Order: unblock.Order{Hook: "BeforeClusterUpgrade", Until: time.Now().Add(10 * time.Second)},
					Calls: func() ([]record.Call, error) {
						if asked++; asked < 3 {
							return []record.Call{blocks}, nil
						}
						return c.calls, nil
					},
				}
				said := 0
				err := u.Wait(t.Context(), func(string) { said++ })
				if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || said == 0 {
					t.Errorf("Wait reported %d times what it waits for, and returned %v", said, err)
				}
			})
		})
	}
}

// TestFind checks that Find completes the order with the proper name of the hook and the user who gives it.
func TestFind(t *testing.T) {
	call := record.Call{Time: time.Now(), Hook: "g/v1/BeforeClusterUpgrade", Extension: "e", Answer: record.Blocked}
	calls := func() ([]record.Call, error) { return []record.Call{call}, nil }
	order := unblock.Order{Hook: "beforeclusterupgrade"}
	u := &Unblocking{Client: &standing{}, Cluster: &clusterv1.Cluster{}, Calls: calls, Order: order}
	blocks, err := u.Find(t.Context())
	if err != nil || len(blocks) != 1 || u.Order.Hook != "BeforeClusterUpgrade" ||
		!strings.HasPrefix(u.Order.By, "alice") {
		t.Errorf("Find returned %v, error %v, and completed the order to %+v", blocks, err, u.Order)
	}
	u.Client = &standing{denied: errors.New("no route")}
	_, err = u.Find(t.Context())
	if err == nil || !strings.Contains(err.Error(), "asking the management plane who you are") {
		t.Errorf("a plane that does not answer: %v", err)
	}
	u.Order.Hook = "BeforeClusterDelete"
	if _, err := u.Find(t.Context()); err == nil || hint.Of(err) == "" {
		t.Errorf("a hook that does not block: %v", err)
	}
}
