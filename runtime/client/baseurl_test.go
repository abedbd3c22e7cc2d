package client

import (
	"testing"

	"k8s.io/utils/ptr"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
)

// An extension is called at its Service, below the path, at port 443 by default; or at its URL.
func TestBaseURL(t *testing.T) {
	service := func(change func(*runtimev1.ServiceReference)) runtimev1.ClientConfig {
		s := runtimev1.ServiceReference{Namespace: "extensions", Name: "quota"}
		change(&s)
		return runtimev1.ClientConfig{Service: s}
	}
	for name, c := range map[string]struct {
		config  runtimev1.ClientConfig
		url     string
		address string
	}{
		"a service": {
			service(func(*runtimev1.ServiceReference) {}), "https://quota.extensions.svc", "quota.extensions.svc:443",
		},
		"a service with a port": {
			service(func(s *runtimev1.ServiceReference) { s.Port = ptr.To[int32](8443) }),
			"https://quota.extensions.svc:8443", "quota.extensions.svc:8443",
		},
		"a service with a path": {
			service(func(s *runtimev1.ServiceReference) { s.Path = "/hooks/" }),
			"https://quota.extensions.svc/hooks", "quota.extensions.svc:443",
		},
		"a URL": {
			runtimev1.ClientConfig{URL: "https://quota.example.org:9443/hooks/"},
			"https://quota.example.org:9443/hooks", "quota.example.org:9443",
		},
	} {
		t.Run(name, func(t *testing.T) {
			base, err := baseURL(c.config)
			if err != nil || base.String() != c.url {
				t.Fatalf("the base URL is %v, %v, want %s", base, err, c.url)
			}
			if got := addressOf(base); got != c.address {
				t.Errorf("the address is %s, want %s", got, c.address)
			}
			switch name {
			case "a service":
				t.Attr("rule", "RC-06")
			case "a service with a port":
				t.Attr("rule", "RC-08")
			case "a service with a path":
				t.Attr("rule", "RC-07")
			case "a URL":
				t.Attr("rule", "RC-05")
			}
		})
	}
}
