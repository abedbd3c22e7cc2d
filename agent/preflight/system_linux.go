package preflight

import (
	"os"
	"runtime"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// This returns the computer that the program runs on.
func This() *System {
	return &System{
		User: os.Getuid(), Architecture: runtime.GOARCH, Processors: runtime.NumCPU(), Release: release(),
		Synchronized: synchronized, Free: free, Chains: chains, Enrolment: enrolment,
	}
}

func release() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}

// synchronized asks the kernel. Programs that synchronize the clock report to it.
func synchronized() (bool, error) {
	var state unix.Timex
	if _, err := unix.Adjtimex(&state); err != nil {
		return false, err
	}
	return state.Status&unix.STA_UNSYNC == 0, nil
}

func free(path string) (uint64, error) {
	var state unix.Statfs_t
	if err := unix.Statfs(path, &state); err != nil {
		return 0, err
	}
	return state.Bavail * uint64(state.Bsize), nil
}

// families are nft's names for families of packets.
var families = map[nftables.TableFamily]string{
	nftables.TableFamilyINet: "inet", nftables.TableFamilyIPv4: "ip", nftables.TableFamilyIPv6: "ip6",
}

func chains() ([]Chain, error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, err
	}
	list, err := conn.ListChains()
	if err != nil {
		return nil, err
	}
	var all []Chain
	for _, c := range list {
		family, known := families[c.Table.Family]
		if c.Hooknum == nil || !known {
			continue
		}
		one := Chain{Family: family, Table: c.Table.Name, Name: c.Name}
		switch *c.Hooknum {
		case *nftables.ChainHookInput:
			one.Hook = "input"
		case *nftables.ChainHookForward:
			one.Hook = "forward"
		default:
			continue
		}
		one.Drops = c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop
		all = append(all, one)
	}
	return all, nil
}
