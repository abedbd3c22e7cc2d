package clusterctl

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
)

// noting is an upstream client that records its calls.
type noting struct {
	upstream.Client
	fails error
	did   []string
}

func (n *noting) Init(_ context.Context, o upstream.InitOptions) ([]upstream.Components, error) {
	n.did = append(n.did, "install "+strings.Join(o.InfrastructureProviders, ",")+" in "+o.TargetNamespace)
	return nil, n.fails
}

func (n *noting) ApplyUpgrade(_ context.Context, o upstream.ApplyUpgradeOptions) error {
	n.did = append(n.did, "upgrade "+strings.Join(o.InfrastructureProviders, ",")+o.Contract)
	return n.fails
}

func (n *noting) Delete(_ context.Context, o upstream.DeleteOptions) error {
	n.did = append(n.did, "remove "+strings.Join(o.InfrastructureProviders, ","))
	return n.fails
}

// plane returns the client of an embedded plane with the provider capstan, and the recorded calls to upstream.
func plane(fails error) (*Client, *noting) {
	told := &noting{fails: fails}
	part := Provider{Name: "capstan", Type: clusterctlv1.InfrastructureProviderType, Version: "v1.0.0", Embedded: true}
	return &Client{Client: told, Installed: []Provider{part}}, told
}

const (
	aPart  = "part of the embedded plane"
	choose = "either name providers"
)

// failsWith reports whether err contains the text. An empty text means no error.
func failsWith(err error, text string) bool {
	if err == nil {
		return text == ""
	}
	return text != "" && strings.Contains(err.Error(), text)
}

func infra(names ...string) Request { return Request{clusterctlv1.InfrastructureProviderType: names} }

func TestInstall(t *testing.T) {
	wrong := errors.New("no route")
	for name, c := range map[string]struct {
		embedded  bool
		request   Request
		fails     error
		installed bool
		err       string
		did       string
	}{
		"a part of the plane":                    {true, infra("capstan"), nil, false, "", ""},
		"another version of a part of the plane": {true, infra("capstan:v2.0.0"), nil, false, aPart, ""},
		"a provider without components":          {true, infra(upstream.NoopProvider), nil, true, "", "install - in x"},
		"a cluster that is not a plane":          {false, infra("capstan"), nil, true, "", "install capstan in x"},
		"a provider whose installation fails":    {false, infra("aws"), wrong, false, "no route", "install aws in x"},
		"core and kubeadm":                       {false, Request{}, nil, true, "", "install  in x"},
	} {
		t.Run(name, func(t *testing.T) {
			client, told := plane(c.fails)
			if !c.embedded {
				client.Installed = nil
			}
			installed, err := client.Install(t.Context(), Installation{Request: c.request, TargetNamespace: "x"})
			if installed != c.installed || !failsWith(err, c.err) {
				t.Errorf("installed: %t, %v", installed, err)
			}
			if strings.Join(told.did, ", ") != c.did {
				t.Errorf("the calls to upstream were %q", told.did)
			}
		})
	}
}

// TestAllow: nothing is installed without permission to run the programs, and the permission ends with the
// installation.
func TestAllow(t *testing.T) {
	for name, refused := range map[string]error{"allowed": nil, "refused": errors.New("somebody else is installing")} {
		t.Run(name, func(t *testing.T) {
			c, told := plane(nil)
			c.Installed, c.binaries = nil, map[string]string{"docker": "/opt/capd"}
			c.allow = func(_ context.Context, binaries map[string]string) (func(), error) {
				told.did = append(told.did, "allow "+binaries["docker"])
				return func() { told.did = append(told.did, "done") }, refused
			}
			_, installErr := c.Install(t.Context(), Installation{Request: infra("docker")})
			upgradeErr := c.Upgrade(t.Context(), Upgrade{Request: infra("docker")})
			want := []string{
				"allow /opt/capd", "install docker in ", "done", "allow /opt/capd", "upgrade docker", "done",
			}
			if refused != nil {
				want = []string{"allow /opt/capd", "allow /opt/capd"}
			}
			if !errors.Is(installErr, refused) || !errors.Is(upgradeErr, refused) || !slices.Equal(told.did, want) {
				t.Errorf("the calls were %q: %v, %v", told.did, installErr, upgradeErr)
			}
		})
	}
}

func TestUpgrade(t *testing.T) {
	for name, c := range map[string]struct {
		upgrade  Upgrade
		embedded bool
		want     string
	}{
		"neither providers nor a contract": {Upgrade{}, false, choose},
		"providers and a contract":         {Upgrade{Request: infra("a:v1"), Contract: "v1beta2"}, false, choose},
		"a contract":                       {Upgrade{Contract: "v1beta2"}, false, ""},
		"a contract on the plane":          {Upgrade{Contract: "v1beta2"}, true, aPart},
		"a part of the plane":              {Upgrade{Request: infra("capstan:v2.0.0")}, true, aPart},
		"a provider":                       {Upgrade{Request: infra("aws:v2.0.0")}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			client, told := plane(nil)
			if !c.embedded {
				client.Installed = nil
			}
			err := client.Upgrade(t.Context(), c.upgrade)
			if !failsWith(err, c.want) || (len(told.did) > 0) != (err == nil) {
				t.Errorf("got %v, the calls to upstream were %q", err, told.did)
			}
		})
	}
}

func TestRemove(t *testing.T) {
	for name, c := range map[string]struct {
		removal  Removal
		embedded bool
		want     string
	}{
		"neither providers nor all":              {Removal{}, false, choose},
		"providers and all":                      {Removal{Request: infra("a"), All: true}, false, choose},
		"all providers":                          {Removal{All: true}, false, ""},
		"all providers of a plane":               {Removal{All: true}, true, aPart},
		"a part of the plane":                    {Removal{Request: infra("capstan")}, true, aPart},
		"a provider that was added to the plane": {Removal{Request: infra("aws")}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			client, told := plane(nil)
			if !c.embedded {
				client.Installed = nil
			}
			err := client.Remove(t.Context(), c.removal)
			if !failsWith(err, c.want) || (len(told.did) > 0) != (err == nil) {
				t.Errorf("got %v, the calls to upstream were %q", err, told.did)
			}
		})
	}
}

func TestRolloutOfNothing(t *testing.T) {
	c, _ := plane(nil)
	if err := c.Rollout(t.Context(), "explode", "default", nil); err == nil {
		t.Error("an unknown verb was accepted")
	}
}
