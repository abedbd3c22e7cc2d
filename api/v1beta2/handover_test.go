package v1beta2

import "testing"

func TestAnOfferLeadsWhereItWasMadeTo(t *testing.T) {
	const server, ca = "https://10.0.0.1:6443", "-----BEGIN CERTIFICATE-----\n"
	id := OfferID("uid", "random", server, ca)
	host := &CapstanHost{}
	host.UID, host.Annotations = "uid", map[string]string{OfferAnnotation: id}
	longest := OfferID("12345678-1234-1234-1234-123456789012", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", server, ca)
	if host.Offer() != id || len(longest) > 128 {
		t.Errorf("the id %q can't be an offer's", id)
	}
	for name, c := range map[string]struct {
		id, server, ca string
		want           bool
	}{
		"what the mover has written":        {id, server, ca, true},
		"as the agent reads it":             {id, server + "/", "-----BEGIN CERTIFICATE-----", true},
		"another server":                    {id, "https://10.0.0.2:6443", ca, false},
		"another authority":                 {id, server, "other", false},
		"an offer of another mover":         {OfferID("uid", "random", "https://10.0.0.2:6443", ca), server, ca, false},
		"an offer of an earlier version":    {"uid/random", server, ca, true},
		"an id whose digest was taken away": {"uid/random.", server, ca, false},
	} {
		if got := OfferLeadsTo(c.id, c.server, c.ca); got != c.want {
			t.Errorf("%s: leads there: %t, want %t", name, got, c.want)
		}
	}
}
