package page

// icons has the drawings: a grid of 16 by 16, a line of 1.5, and the colour of the text around
// them. An icon is decoration; the words beside it say the same.
var icons = map[string]string{
	"home":         icon(`<path d="M2 8 8 2.500 14 8M3.500 7v6.500h9V7"/>`),
	"overview":     icon(`<path d="M2 13h12M4 10.5V8M8 10.5V4M12 10.5V6.5"/>`),
	"endpoints":    icon(`<circle cx="4" cy="8" r="2"/><path d="M6 8h8m-3-3 3 3-3 3"/>`),
	"accounts":     icon(`<circle cx="8" cy="5" r="2.5"/><path d="M3 13.5c.5-3 2.5-4 5-4s4.500 1 5 4"/>`),
	"events":       icon(`<path d="M9 1.500 3.500 9H8l-1 5.500L12.500 7H8z"/>`),
	"deliveries":   icon(`<path d="M2 8h12M9.500 3.500 14 8l-4.500 4.500M2 4h4M2 12h4"/>`),
	"dead_letters": icon(`<path d="M2 4.500h12v8H2zM2 5l6 4 6-4M5.500 1.500l5 0"/>`),
	"replays":      icon(`<path d="M3 8a5 5 0 1 0 1.500-3.500L3 6m0-3.500V6h3.500"/>`),
	"event_types":  icon(`<path d="M2.500 3h5l6 6-4.500 4.500-6.500-6zM5.500 6h0"/>`),
	"sources":      icon(`<ellipse cx="6" cy="4" rx="4" ry="2"/><path d="M2 4v6.500c0 1.100 1.800 2 4 2M10 4v3M8 10.500h6m-2.500-2.500 2.500 2.500-2.500 2.500"/>`),
	"api_keys":     icon(`<circle cx="5" cy="10.500" r="2.500"/><path d="M7 9l6-6m-2 2 1.500 1.500M9.500 6.500 11 8"/>`),
	"archive":      icon(`<path d="M2 3h12v3H2zM3 6v7.500h10V6M6.500 9h3"/>`),
	"audit":        icon(`<path d="M3.500 2h9v12h-9zM6 5.500h4M6 8h4M6 10.500h2"/>`),
	"notices":      icon(`<path d="M4 11V7a4 4 0 0 1 8 0v4l1.500 1.500h-11zM6.500 14.500h3"/>`),
	"live":         icon(`<path d="M1.500 8H5l1.500-4.500 3 9L11 8h3.500"/>`),
	"sessions":     icon(`<rect x="2" y="3" width="12" height="8.500" rx="1"/><path d="M6 14h4"/>`),
	"destinations": icon(`<path d="M2 3.500h12v9H2zM2 4l6 5 6-5"/>`),
	"search":       icon(`<circle cx="7" cy="7" r="4.500"/><path d="m10.500 10.500 3.500 3.500"/>`),
	"copy":         icon(`<rect x="5.500" y="5.500" width="8" height="8.500" rx="1"/><path d="M10.500 3V2H2.500v8.500h1"/>`),
	"menu":         icon(`<path d="M2.500 4.500h11M2.500 8h11M2.500 11.500h11"/>`),
	"external":     icon(`<path d="M9 2.500h4.500V7M13 3 7.500 8.500M6.500 3.500h-4v10h10v-4"/>`),
	"plus":         icon(`<path d="M8 3v10M3 8h10"/>`),
	"good":         icon(`<path d="m3 8.500 3.500 3.500L13 4.500"/>`),
	"bad":          icon(`<path d="m4 4 8 8M12 4l-8 8"/>`),
	"warn":         icon(`<path d="M8 2 14.500 13.500h-13zM8 6.500v3M8 11.500h0"/>`),
	"busy":         icon(`<circle cx="8" cy="8" r="6"/><path d="M8 4.500V8l2.500 1.500"/>`),
	"idle":         icon(`<path d="M4 8h8"/>`),
	"settings":     icon(`<path d="M2 4.500h7m3 0h2M2 11.500h2m3 0h7"/><circle cx="10.500" cy="4.500" r="1.500"/><circle cx="5.500" cy="11.500" r="1.500"/>`),
	"brand":        icon(`<path d="M1.500 3.500 14.500 2 9 14.500 7 9z"/><path d="M7 9l7.500-7"/>`),
}

// icon returns a drawing as an SVG element.
func icon(drawing string) string {
	return `<svg class="icon" viewBox="0 0 16 16" width="16" height="16" fill="none" stroke="currentColor" stroke-width="1.5" ` +
		`stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">` + drawing + `</svg>`
}
