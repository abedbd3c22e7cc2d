package network

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestParseRanges(t *testing.T) {
	for name, c := range map[string]struct {
		texts []string
		want  string
		err   string
	}{
		"one range":               {texts: []string{"10.244.1.0/24"}, want: "10.244.1.0/24"},
		"one of each family":      {texts: []string{"fd00::/64", " 10.244.1.0/24 "}, want: "fd00::/64 10.244.1.0/24"},
		"host bits are cleared":   {texts: []string{"10.244.1.7/24"}, want: "10.244.1.0/24"},
		"an address, not a range": {texts: []string{"10.244.1.0"}, err: "is not valid"},
		"a range without room":    {texts: []string{"10.244.1.0/31"}, err: "no room"},
		"two ranges of a family":  {texts: []string{"10.244.1.0/24", "10.244.2.0/24"}, err: "two pod ranges of one family"},
	} {
		ranges, err := ParseRanges(c.texts)
		var got []string
		for _, r := range ranges {
			got = append(got, r.String())
		}
		if strings.Join(got, " ") != c.want || (err != nil) != (c.err != "") ||
			err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %v, %v; want %s, %s", name, got, err, c.want, c.err)
		}
	}
}

func texts(addresses []netip.Addr) string {
	var all []string
	for _, a := range addresses {
		all = append(all, a.String())
	}
	return strings.Join(all, " ")
}

func TestAddresses(t *testing.T) {
	ranges, err := ParseRanges([]string{"10.244.1.0/29", "fd00::/125"})
	if err != nil {
		t.Fatal(err)
	}
	var a Addresses
	a.SetRanges(ranges)
	take := func(id, want string) {
		t.Helper()
		got, err := a.Take(id)
		if texts(got) != want || (want == "") != errors.Is(err, ErrExhausted) {
			t.Errorf("%s got %v, %v; want %s", id, got, err, want)
		}
	}
	take("a", "10.244.1.2 fd00::2")
	take("b", "10.244.1.3 fd00::3")
	a.Free("a")
	a.Free("a")
	take("c", "10.244.1.4 fd00::4") // a's address is not reused at once
	take("d", "10.244.1.5 fd00::5")
	take("e", "10.244.1.6 fd00::6")
	take("f", "10.244.1.2 fd00::7") // 10.244.1.7 is broadcast
	a.Free("a")                     // f now has a's former address
	take("g", "")
	a.Free("d")
	take("g", "10.244.1.5 fd00::2")
	if !a.HoldsIn(ranges[0]) || a.HoldsIn(netip.MustParsePrefix("10.9.0.0/16")) {
		t.Error("HoldsIn does not tell ranges with held addresses from others")
	}

	var after Addresses // the addresses after a restart
	after.SetRanges(ranges)
	held := []netip.Addr{netip.MustParseAddr("10.244.1.2"), netip.MustParseAddr("fd00::2")}
	for range 2 {
		if err := after.Hold("a", held); err != nil {
			t.Error(err)
		}
	}
	if err := after.Hold("b", held[:1]); err == nil || !strings.Contains(err.Error(), "is already held by pod sandbox a") {
		t.Errorf("a second pod holds an address: %v", err)
	}
	if got, err := after.Take("b"); texts(got) != "10.244.1.3 fd00::3" {
		t.Errorf("b got %v, %v", got, err)
	}
}

// Whatever is taken and freed, no address ever has two holders or is outside the range.
func FuzzAddresses(f *testing.F) {
	f.Add([]byte{1, 2, 3, 0x81, 1, 4, 5, 6, 7})
	f.Fuzz(func(t *testing.T, steps []byte) {
		r := netip.MustParsePrefix("10.0.0.0/28")
		var a Addresses
		a.SetRanges([]netip.Prefix{r})
		holder := map[netip.Addr]byte{}
		for _, step := range steps {
			id := step & 0x7f
			if step&0x80 != 0 {
				a.Free(string(id))
				for address, of := range holder {
					if of == id {
						delete(holder, address)
					}
				}
				continue
			}
			got, err := a.Take(string(id))
			if err != nil {
				if len(holder) != 13 { // 16 minus the network's, the gateway's, and broadcast
					t.Fatalf("exhausted with %d held", len(holder))
				}
				continue
			}
			if _, twice := holder[got[0]]; twice || !r.Contains(got[0]) || got[0] == Gateway(r) {
				t.Fatalf("%v was handed out", got[0])
			}
			holder[got[0]] = id
		}
	})
}
