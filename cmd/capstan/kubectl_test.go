package main

import (
	"reflect"
	"slices"
	"testing"
)

func TestEnvironment(t *testing.T) {
	given := []string{"A=1", "KUBECONFIG=/of/the/user", "KUBECONFIG_=2", "KUBECONFIG=/again"}
	if got, want := environment(given, "KUBECONFIG", "/chosen"),
		[]string{"A=1", "KUBECONFIG_=2", "KUBECONFIG=/chosen"}; !slices.Equal(got, want) {
		t.Errorf("the environment is %q, want %q", got, want)
	}
	if given[1] != "KUBECONFIG=/of/the/user" {
		t.Error("the given environment was changed")
	}
}

func TestTakeOwnFlags(t *testing.T) {
	for name, c := range map[string]struct {
		args    []string
		cluster string
		home    string
		rest    []string
		fails   bool
	}{
		"all arguments are for kubectl": {
			args: []string{"get", "nodes", "--cluster", "x"}, rest: []string{"get", "nodes", "--cluster", "x"},
		},
		"a cluster before the command": {
			args: []string{"--cluster", "demo", "get", "nodes"}, cluster: "demo", rest: []string{"get", "nodes"},
		},
		"a cluster with an equals sign": {
			args: []string{"--cluster=demo", "get"}, cluster: "demo", rest: []string{"get"},
		},
		"a home directory and a cluster": {
			args: []string{"--home", "/h", "--cluster=demo", "get"}, cluster: "demo", home: "/h", rest: []string{"get"},
		},
		"two dashes end our flags": {
			args: []string{"--cluster", "demo", "--", "get", "nodes"}, cluster: "demo", rest: []string{"get", "nodes"},
		},
		"two dashes after the command are for kubectl": {
			args: []string{"exec", "pod", "--", "sh"}, rest: []string{"exec", "pod", "--", "sh"},
		},
		"a missing value is an error": {args: []string{"--cluster"}, fails: true},
		"no arguments":                {rest: nil},
	} {
		t.Run(name, func(t *testing.T) {
			a := &app{}
			cluster, rest, err := a.takeOwnFlags(c.args)
			if (err != nil) != c.fails {
				t.Fatalf("got error %v", err)
			}
			if err == nil && (cluster != c.cluster || a.homeFlag != c.home || !reflect.DeepEqual(rest, c.rest)) {
				t.Errorf("got %q %q %q, want %q %q %q", cluster, a.homeFlag, rest, c.cluster, c.home, c.rest)
			}
		})
	}
}
