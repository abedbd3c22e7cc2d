package handover

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/capstan-dev/capstan/agent/internal/testapi"
	"github.com/capstan-dev/capstan/agent/rest"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

func TestDecide(t *testing.T) {
	cases := map[string]struct {
		said        answer
		offer, next string
		want        action
	}{
		"nothing is offered":                      {present, "", "", nothing},
		"nothing is known yet":                    {silent, "", "", nothing},
		"the host is gone and there was no offer": {absent, "", "", nothing},
		"a new offer":                             {present, "u/1", "", accept},
		"an offer differs from the accepted one":  {present, "u/2", "u/1", accept},
		"the accepted offer has not changed":      {present, "u/1", "u/1", keep},
		"the offer was called off":                {present, "", "u/1", forget},
		"the host is gone":                        {absent, "", "u/1", ask},
		"the mover has replaced the annotations, which does not call off the offer": {leaving, "", "u/1", ask},
		"silence does not call off the offer":                                       {silent, "", "u/1", ask},
		"a refusal calls no offer off":                                              {refuses, "", "u/1", ask},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := decide(c.said, c.offer, c.next); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestAnswerOf(t *testing.T) {
	marked := &v1beta2.CapstanHost{}
	marked.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
	cases := map[string]struct {
		host *v1beta2.CapstanHost
		err  error
		want answer
	}{
		"the host is there":               {&v1beta2.CapstanHost{}, nil, present},
		"the host is about to be deleted": {marked, nil, leaving},
		"the host isn't there":            {nil, nil, absent},
		"the token is refused":            {nil, &rest.StatusError{Code: 401}, refuses},
		"the role is gone":                {nil, &rest.StatusError{Code: 403}, refuses},
		"there are no CapstanHosts":       {nil, &rest.StatusError{Code: 404}, silent},
		"the server fails":                {nil, &rest.StatusError{Code: 500}, silent},
		"there is no connection":          {nil, errors.New("connection refused"), silent},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := answerOf(c.host, c.err); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// machine is the providerID of the machine on the host, in the tests of this file.
const machine = "capstan://blue/h1/0a1b2c3d"

func hostWith(claim string, change func(*v1beta2.CapstanHost)) *v1beta2.CapstanHost {
	h := &v1beta2.CapstanHost{}
	if claim != "" {
		h.Spec.Claim = &v1beta2.HostClaim{ProviderID: claim}
	}
	if change != nil {
		change(h)
	}
	return h
}

func released(h *v1beta2.CapstanHost) { h.Spec.Claim.Released = true }
func local(h *v1beta2.CapstanHost)    { h.Spec.Supplier = v1beta2.SupplierDock }

// errorHas fails the test unless the text of err contains want. An empty want means that err must be nil.
func errorHas(t *testing.T, err error, want string) {
	t.Helper()
	if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestReady(t *testing.T) {
	up := []carried{{claim: machine, ended: true}}
	cases := map[string]struct {
		host *v1beta2.CapstanHost
		all  []carried
		want string
	}{
		"the machine is up": {hostWith(machine, nil), up, ""},
		"an earlier machine was cleaned up": {hostWith(machine, nil),
			append(up, carried{claim: "other", ended: true, cleaned: true}), ""},
		"an earlier machine was not cleaned up": {hostWith(machine, nil), append(up, carried{claim: "other"}),
			"another machine is on the host: other"},
		"the bootstrap still runs":    {hostWith(machine, nil), []carried{{claim: machine}}, "has not finished"},
		"the bootstrap has not begun": {hostWith(machine, nil), nil, "is not on the host"},
		"the host was cleaned after this machine": {hostWith(machine, nil),
			[]carried{{claim: machine, ended: true, cleaned: true}}, "has not finished"},
		"the machine was deleted":         {hostWith(machine, released), up, "deleted"},
		"nobody claims the host":          {hostWith("", nil), up, "no machine"},
		"another machine claims the host": {hostWith("other", nil), up, "another machine is on the host: " + machine},
		"a local host":                    {hostWith(machine, local), up, "local"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { errorHas(t, ready(c.host, c.all), c.want) })
	}
}

func TestFits(t *testing.T) {
	cases := map[string]struct {
		there *v1beta2.CapstanHost
		want  string
	}{
		"the host has not moved yet":             {nil, ""},
		"a move was interrupted":                 {hostWith(machine, nil), ""},
		"the host of another machine":            {hostWith("capstan://blue/h1/99999999", nil), "capstan://blue/h1/99999999"},
		"a free host, which a machine may claim": {hostWith("", nil), "no machine claims"},
		"a local host":                           {hostWith(machine, local), "local host"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { errorHas(t, fits(c.there, machine), c.want) })
	}
}

func TestMayChange(t *testing.T) {
	up := []carried{{claim: machine, ended: true}}
	cleaned := []carried{{claim: machine, ended: true, cleaned: true}}
	cases := map[string]struct {
		said    answer
		refused time.Duration
		there   *v1beta2.CapstanHost
		all     []carried
		want    string
	}{
		"the host has moved":                             {absent, 0, hostWith(machine, nil), up, ""},
		"the mover is about to delete the host":          {leaving, 0, hostWith(machine, nil), up, ""},
		"the host is on both sides":                      {present, 0, hostWith(machine, nil), up, "has not released"},
		"silence is no answer, whatever the target says": {silent, 0, hostWith(machine, nil), up, "has not released"},
		"the host is on neither side":                    {absent, 0, nil, up, "not in the target"},
		"marked by the mover, but not in the target":     {leaving, 0, nil, up, "not in the target"},
		"the target claims the host for another machine": {absent, 0, hostWith("capstan://blue/h1/99999999", nil),
			up, "another machine"},
		"the target claims the host for no machine":        {absent, 0, hostWith("", nil), up, "no machine"},
		"the target has a local host of that name":         {absent, 0, hostWith(machine, local), up, "local host"},
		"moved, and the machine was deleted in the target": {absent, 0, hostWith(machine, released), up, ""},
		"moved after the host was cleaned":                 {absent, 0, hostWith(machine, released), cleaned, ""},
		"a second machine is on the host": {absent, 0, hostWith(machine, nil),
			append([]carried{{claim: "other"}}, up...), "another machine"},
		"no machine is on the host": {absent, 0, hostWith(machine, nil), nil,
			"another machine"},
		"refused for a moment": {refuses, refusalPatience - 1, hostWith(machine, nil),
			up, "may be temporary"},
		"refused for a minute, and claimed in the target": {refuses, refusalPatience,
			hostWith(machine, nil), up, ""},
		"refused for long, and released in the target": {refuses, 10 * refusalPatience,
			hostWith(machine, released), up, "released"},
		"refused for a minute, and claimed in the target for another machine": {
			refuses, refusalPatience, hostWith("other", nil), up, "another machine",
		},
		"the host was cleaned, and is on both sides": {present, 0, hostWith(machine, nil), cleaned,
			"has not released"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { errorHas(t, mayChange(c.said, c.refused, c.there, c.all), c.want) })
	}
}

func TestLapsed(t *testing.T) {
	now := time.Now()
	good, old := testapi.Token(now.Add(-time.Hour), now.Add(time.Second), ""),
		testapi.Token(now.Add(-time.Hour), now.Add(-time.Second), "")
	cases := map[string]struct {
		err         error
		token, want string
	}{
		"the target can't be reached":                   {errors.New("connection refused"), good, ""},
		"the target fails":                              {&rest.StatusError{Code: 500}, good, ""},
		"the target allows no renewal, before the move": {&rest.StatusError{Code: 403}, good, ""},
		"the target does not know the token":            {&rest.StatusError{Code: 401}, good, "no longer accepts"},
		"an unreachable target and an expired token":    {errors.New("connection refused"), old, "has expired"},
		"the target is back after the token has expired": {
			fmt.Errorf("renewing: %w", &rest.StatusError{Code: 401}), old, "no longer accepts",
		},
		"a token without times":     {errors.New("connection refused"), "hunter2", ""},
		"a token with empty claims": {errors.New("connection refused"), "e30.e30.c2ln", ""},
		"an invalid token":          {errors.New("connection refused"), "e30.?.c2ln", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { errorHas(t, lapsed(c.err, c.token, now), c.want) })
	}
	first := lapsed(errors.New("read tcp 10.0.0.1:51234->10.0.0.2:6443: connection reset"), old, now)
	if again := lapsed(errors.New("read tcp 10.0.0.1:51236->10.0.0.2:6443: connection reset"), old,
		now); first.Error() != again.Error() {
		t.Errorf("the reported text changes with each attempt: %q, then %q", first, again)
	}
}

func TestTheMarkOfTheMoverIsClusterctls(t *testing.T) {
	if leaveMark != clusterctlv1.DeleteForMoveAnnotation {
		t.Errorf("clusterctl's mark is %s", clusterctlv1.DeleteForMoveAnnotation)
	}
}
