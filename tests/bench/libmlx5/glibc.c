// Debian 13's libmlx5 was compiled against a newer C library than Debian 12 has: these three carry C23's names there.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

long __isoc23_strtol(const char *s, char **end, int base)
{
	return strtol(s, end, base);
}

unsigned long __isoc23_strtoul(const char *s, char **end, int base)
{
	return strtoul(s, end, base);
}

int __isoc23_sscanf(const char *s, const char *format, ...)
{
	va_list arguments;
	int n;

	va_start(arguments, format);
	n = vsscanf(s, format, arguments);
	va_end(arguments);
	return n;
}
