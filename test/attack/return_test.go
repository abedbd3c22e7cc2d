//go:build linux

package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/enrolment"
	"github.com/capstan-dev/capstan/local/enrol"
)

// hostReturns returns attempts to come back as a host with its last token, which may have expired. The plane's own code
// decides whether the host may come back, based on objects in the plane.
func hostReturns() []attempt {
	const boundary = "a host that was away comes back as itself"
	const rightful, another = "sha256:rightful", "sha256:another"
	returns := func(who identity, mechanism, name, key string, change ...request) attempt {
		path := capstan + "capstanhosts/" + name
		return attempt{
			boundary: boundary, who: who, mechanism: mechanism,
			try: func(ctx context.Context, w *world) error {
				token, err := w.awayHost(ctx, name, rightful)
				for _, r := range change {
					err = errors.Join(err, w.ask(ctx, admin, r))
				}
				if err != nil {
					return err
				}
				_, err = w.comeBack(ctx, token, key)
				var no *enrolment.Refusal
				if errors.As(err, &no) {
					err = refused("%s", no.Reason)
				}
				_ = w.ask(ctx, admin, del(path)) // it may be gone
				return err
			},
			control: func(ctx context.Context, w *world) error {
				fresh := name + "-control"
				token, err := w.awayHost(ctx, fresh, rightful)
				if err != nil {
					return err
				}
				answer, err := w.comeBack(ctx, token, rightful)
				if err == nil && (answer.Host != fresh || answer.Token == "") {
					err = fmt.Errorf("host %s came back as %q", fresh, answer.Host)
				}
				return errors.Join(err, w.ask(ctx, admin, del(capstan+"capstanhosts/"+fresh)))
			},
		}
	}
	host := capstan + "capstanhosts/"
	return []attempt{
		returns(nobody, "replay what a host has sent", "away-a", another),
		returns(hostAccount, "another host's token with its own key", "away-b", "sha256:own"),
		returns(hostAccount, "the token of an epoch that has ended", "away-c", rightful,
			patch(host+"away-c", `{"spec":{"claim":{"machine":"m","machineUID":"u","cluster":"c","hostname":"m",`+
				`"providerID":"capstan://{ns}/away-c/u","kubernetesVersion":"{version}"}}}`),
			patch(host+"away-c", `{"spec":{"claim":null,"epoch":1}}`)),
		returns(hostAccount, "a token whose Secret was deleted", "away-d", rightful,
			del(core+"secrets/away-d-epoch-0")),
		returns(hostAccount, "the token of a host that was removed", "away-e", rightful, del(host+"away-e")),
	}
}

// awayHost registers a host that enrolled with a key, and returns a token that it got.
func (w *world) awayHost(ctx context.Context, name, key string) (string, error) {
	err := w.ask(ctx, admin, post(capstan+"capstanhosts", `{"apiVersion":"infrastructure.capstan.dev/v1beta2",`+
		`"kind":"CapstanHost","metadata":{"name":"`+name+`","annotations":{"`+enrol.KeyAnnotation+`":"`+key+`"}},`+
		`"spec":{"zone":"zone-a"}}`))
	if err == nil {
		err = w.await(ctx, capstan+"capstanhosts/"+name, "reason HostStarting", says(`"HostStarting"`))
	}
	if err != nil {
		return "", err
	}
	status, body, err := w.send(ctx, admin, post(core+"serviceaccounts/host-"+name+"/token",
		`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":600,`+
			`"boundObjectRef":{"apiVersion":"v1","kind":"Secret","name":"`+name+`-epoch-0"}}}`))
	var token struct{ Status struct{ Token string } }
	if err != nil || status != http.StatusCreated || json.Unmarshal([]byte(body), &token) != nil {
		return "", fmt.Errorf("getting a token of host %s: %d %s %w", name, status, message(body), err)
	}
	return token.Status.Token, nil
}

// comeBack calls the code that the plane's enrolment server calls when a host comes back.
func (w *world) comeBack(ctx context.Context, token, key string) (*enrolment.Answer, error) {
	config, err := w.config(manager)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), infrav1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	returns := &enrol.Returns{
		Hosts: &enrol.Hosts{Client: c, Reader: c, Clock: clock.RealClock{}},
		Keys: func() ([]any, error) {
			return keyutil.PublicKeysFromFile(filepath.Join(w.home.Plane(), "pki", "service-accounts.crt"))
		},
	}
	return returns.Return(ctx, enrolment.Return{Token: token}, key)
}
