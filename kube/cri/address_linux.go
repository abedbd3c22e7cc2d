package cri

import (
	"context"
	"hash/fnv"
	"net/netip"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// fallbackCIDR provides pod addresses while the node's own range is unknown. It is RFC 2544's range for benchmarks,
// which is routed nowhere. Nobody answers at the addresses of hollow pods anyway.
const fallbackCIDR = "198.18.0.0/15"

// addressTries bounds the search for a free address in a range.
const addressTries = 1 << 12

// UpdateRuntimeConfig receives the Node's pod range from the kubelet, once the kubelet knows one.
func (s *Server) UpdateRuntimeConfig(
	ctx context.Context, req *runtimeapi.UpdateRuntimeConfigRequest,
) (*runtimeapi.UpdateRuntimeConfigResponse, error) {
	var cidrs []string
	for cidr := range strings.SplitSeq(req.GetRuntimeConfig().GetNetworkConfig().GetPodCidr(), ",") {
		if _, err := netip.ParsePrefix(strings.TrimSpace(cidr)); err == nil {
			cidrs = append(cidrs, strings.TrimSpace(cidr))
		}
	}
	if len(cidrs) == 0 {
		return &runtimeapi.UpdateRuntimeConfigResponse{}, nil
	}
	if s.source(ctx) != nil {
		if err := s.setRanges(cidrs); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.store.saveList("pod-cidrs", cidrs); err != nil {
		return nil, err
	}
	s.podCIDRs = cidrs
	return &runtimeapi.UpdateRuntimeConfigResponse{}, nil
}

// freeAddresses returns an address for the pod from each range. The caller holds the server's lock.
func (s *Server) freeAddresses(pod string) []string {
	taken := map[string]bool{}
	for _, sb := range s.sandboxes {
		if sb.Ready {
			for _, ip := range sb.IPs {
				taken[ip] = true
			}
		}
	}
	cidrs := s.podCIDRs
	if len(cidrs) == 0 {
		return []string{hashedAddress(fallbackCIDR, pod)}
	}
	var ips []string
	for _, cidr := range cidrs {
		ip := freeAddress(cidr, taken)
		if ip == "" {
			ip = hashedAddress(fallbackCIDR, pod)
		}
		ips = append(ips, ip)
	}
	return ips
}

// freeAddress returns the lowest free address of a range, or "". It skips the first two addresses: the first is that of
// the network, the second by convention that of the gateway.
func freeAddress(cidr string, taken map[string]bool) string {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return ""
	}
	ip := prefix.Masked().Addr().Next().Next()
	for range addressTries {
		// The last address of a range is its broadcast address.
		if !ip.IsValid() || !prefix.Contains(ip) || !prefix.Contains(ip.Next()) {
			return ""
		}
		if !taken[ip.String()] {
			return ip.String()
		}
		ip = ip.Next()
	}
	return ""
}

// hashedAddress returns a pod's address in an IPv4 range. It is derived from a hash, so it is always the same.
func hashedAddress(cidr, pod string) string {
	prefix := netip.MustParsePrefix(cidr).Masked()
	h := fnv.New32a()
	h.Write([]byte(pod))
	size := uint32(1) << (32 - prefix.Bits())
	offset := 2 + h.Sum32()%(size-3)
	b := prefix.Addr().As4()
	n := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	n += offset
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}).String()
}
