// Package admission tests what hosts, tenants and movers may write, by Capstan's roles and admission policies, on a
// real API server. Each attempt has a positive control: the rightful identity succeeds with the same request.
package admission
