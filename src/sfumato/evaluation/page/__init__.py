"""Pages that need nothing but themselves: charts, tables and the script that draws them."""
